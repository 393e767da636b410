"""Transcripts: commands to a small simulated domain and everything it does about them, as text.

A transcript is blocks of commands, ``----``, and what was seen; reviewed as a diff like any source. The test
runs the commands and compares. After a change that is meant, rewrite them:

    .venv/bin/python tests/scenarios/transcript.py --rewrite

The domain is the scenario's own (:mod:`holdfast.sim.scenarios.sequence`): hosts a, b, c on the production
cores, the embedded authority, one group. Its network takes 100 µs for every message, so that the same
commands give the same text. A host may be called ``primary``: the one the authority's view names.
"""

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MICROSECOND, MILLISECOND, SECOND, ClientId, GroupId
from holdfast.sequence.messages import Died, Stopping
from holdfast.sequence.recovery import Inspection, Recovery
from holdfast.sim.engine.clocks import ClockOptions
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import DiskOptions, NetworkOptions, Options
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.authority.observer import LeaseBook, Truth
from holdfast.sim.scenarios.authority.server import AUTHORITY, AuthorityNode
from holdfast.sim.scenarios.sequence import disk_damage
from holdfast.sim.scenarios.sequence.application import Ask, Codec, Elsewhere, Reply
from holdfast.sim.scenarios.sequence.host import CONFIG, Host
from holdfast.sim.scenarios.sequence.lease_settings import LeaseSettings
from holdfast.sim.scenarios.sequence.observer import Book

FOLDER = Path(__file__).parent
HOSTS = ("a", "b", "c")
GROUP = GroupId(1)
WAIT_NS = 100 * MILLISECOND
LATEST_NS = 20 * SECOND
NOTE = re.compile(r"^\d+ ([abc]) (\w+) (\{.*\})$")

SENTENCES: dict[str, Callable[..., str]] = {
    "won": lambda host, epoch, members, **_: f"view {epoch}: {_starred(host, members)}",
    "serving": lambda host, epoch, **_: f"{host} serves in epoch {epoch}",
    "claim": lambda host, ground, **_: f"{host} claims: {ground}",
    "drop": lambda host, **fields: f"{fields['of']} drops {host}",
    "add": lambda host, **fields: f"{fields['of']} asks to add {host}",
    "release": lambda host, to, **_: f"{host} releases to {to}",
    "withdraw": lambda host, to, **_: f"{host} withdraws for {to}",
    "knows_more": lambda host, of, **_: f"{host} holds more than {of} claimed with",
    "others_hold_more": lambda host, hosts, **_: f"{host} leaves it to {' '.join(hosts)}",
    "returned_with_less": lambda host, **fields: f"{fields['of']}: {host} returned with less",
    "learning": lambda host, point, **_: f"{host} fetches the state at {point}",
    "installed": lambda host, position, **_: f"{host} has the state at {position}",
    "doubt_settled": lambda host, **_: f"{host} has compared its doubtful tail",
    "lost": lambda host, **_: f"{host}: the group's state is lost",
    "without_object": lambda host, why, **_: f"{host} is without its object: {DIGEST.sub('…', why)}",
    "with_object": lambda host, **_: f"{host} has one again",
    "state_taken": lambda host, position, **_: f"{host} has taken the state at {position}",
    "old_code": lambda host, code, up_to, **_: f"{host} has {_code(code)} bring its state to {up_to}",
    "upgraded": lambda host, to_code, position, **_: f"{host} goes on with {_code(to_code)} at {position}",
    "halted": lambda host, why, **_: f"{host} halts: {why}",
}


DIGEST = re.compile(r"\b[0-9a-f]{32}\b")
"""The digest of a state: it changes whenever the format of saved states does, which is irrelevant here."""


def _code(said: str) -> str:
    """Show code by its declared version, by which transcripts distinguish it."""
    return f"version {said.partition(' ')[0]}"


def _starred(primary: str, members: list[str]) -> str:
    return " ".join(f"{member}*" if member == primary else member for member in sorted(members))


class Client:
    """A client that sends single requests and keeps the latest answer."""

    def __init__(self, ports: NodePorts) -> None:
        self.ports = ports
        self.answers: dict[int, Reply | Elsewhere] = {}

    def on_message(self, peer: str, message: object) -> None:
        if isinstance(message, Reply | Elsewhere):
            self.answers[message.number] = message


class Domain:
    """The simulated domain of one transcript."""

    def __init__(self) -> None:
        options = Options(
            scenario="sequence",
            seed=0,
            network=NetworkOptions(delay_min_ns=100 * MICROSECOND, delay_mean_ns=0),
            disk=DiskOptions(sync_min_ns=200 * MICROSECOND, sync_mean_ns=0),
        )
        self.world = World(options, keep_trace=True)
        self.world.network.codec = Codec()
        self._book = Book.of(self.world, CONFIG.min_in_sync)
        self._said = 0
        self._tokens: dict[str, int] = {}
        self._cuts: list[tuple[str, str]] = []

    # --- commands: each returns the lines it wants to show, before what the members did

    def group(self, *words: str) -> Iterator[str]:
        """``group of 3 [in memory]``"""
        world, clock = self.world, ClockOptions()
        self._truth, leases = Truth(world), LeaseBook(world)
        world.add_node(AUTHORITY, partial(AuthorityNode, truth=self._truth, leases=leases), clock=clock)
        in_memory = "memory" in words
        disk, memory = ([], [GROUP]) if in_memory else ([GROUP], [])
        build = partial(
            Host,
            book=self._book,
            hosts=HOSTS,
            disk=disk,
            memory=memory,
            settings=LeaseSettings(world, HOSTS),
            hand_overs=0.0,
        )
        for name in HOSTS:
            world.add_node(name, build, clock=clock, supervised=False)
        world.add_node("client", Client, clock=clock)
        self._run_until(lambda: self._view().count(" ") == 4 and self._is_served())
        yield from ()

    def run(self, time: str) -> Iterator[str]:
        """``run 500ms``"""
        self._run(int(time.removesuffix("ms")) * MILLISECOND)
        yield from ()

    def await_(self, *words: str) -> Iterator[str]:
        """``await service``, ``await all`` (three in-sync members) or ``await primary b``"""
        if words == ("all",):
            self._run_until(lambda: self._view().count(" ") == 4 and self._is_served())
        elif words[0] == "primary":
            self._run_until(lambda: f"{words[1]}*" in self._view() and self._is_served())
        else:
            self._run_until(self._is_served)
        yield from ()

    def view(self) -> Iterator[str]:
        yield self._view()

    def append(self, host: str, token: str) -> Iterator[str]:
        """``append a x``: the same token is the same request"""
        yield self._ask(host, token, self._tokens.setdefault(token, len(self._tokens) + 1))

    def read(self, host: str) -> Iterator[str]:
        self._tokens[f"read {len(self._tokens)}"] = number = len(self._tokens) + 1
        yield self._ask(host, "", number)

    def cut(self, *words: str) -> Iterator[str]:
        """``cut a | b c`` in both directions, ``cut a > b`` in one"""
        arrow = ">" if ">" in words else "|"
        at = words.index(arrow)
        links = [(one, other) for one in words[:at] for other in words[at + 1 :]]
        if arrow == "|":
            links += [(other, one) for one, other in links]
        self.world.network.cut(links)
        self._cuts += links
        yield from ()

    def heal(self) -> Iterator[str]:
        self.world.network.mend(self._cuts)
        self._cuts = []
        yield from ()

    def kill(self, *hosts: str) -> Iterator[str]:
        for host in hosts:
            self.world.nodes[host].kill()
        yield from ()

    def power(self, *hosts: str) -> Iterator[str]:
        """``power a b c``: cut it"""
        for host in hosts:
            self.world.nodes[host].power_cut()
        yield from ()

    def start(self, *hosts: str) -> Iterator[str]:
        for host in hosts:
            self.world.nodes[host].start()
        yield from ()

    def pause(self, host: str) -> Iterator[str]:
        self.world.nodes[host].pause()
        yield from ()

    def resume(self, host: str) -> Iterator[str]:
        self.world.nodes[host].resume()
        yield from ()

    def slow(self, host: str) -> Iterator[str]:
        """``slow a``: its disk takes a second for a sync"""
        self.world.nodes[host].disk.slow_factor = 5000
        yield from ()

    def copy(self, host: str) -> Iterator[str]:
        """``copy a``: keep a copy of its disk, for ``restore a``"""
        self._copy = self.world.nodes[host].disk.copy()
        yield from ()

    def restore(self, host: str) -> Iterator[str]:
        """``restore a``: put back what ``copy a`` kept; the authority continues from there at once, and tells
        nobody"""
        node = self.world.nodes[host]
        if host == AUTHORITY:
            node.kill()
            self._truth.put_back()
            self._book.may_halt = True
        node.disk.replace(self._copy)
        if host == AUTHORITY:
            node.start()
        yield from ()

    def wipe(self, host: str) -> Iterator[str]:
        self.world.nodes[host].disk.wipe()
        yield from ()

    def rot(self, host: str) -> Iterator[str]:
        """``rot a``: a bit in the last batch of its log flips while it is down"""
        disk_damage.rot_last_batch(self.world.nodes[host], back=10)
        yield from ()

    def prove(self, host: str, incarnation: str) -> Iterator[str]:
        """``prove a 1``: its agent reports the death of that process to the others"""
        for other in HOSTS:
            if other != host:
                self.world.network.send(host, other, Died(host, int(incarnation)))  # type: ignore[arg-type]  # an id
        self._run(MILLISECOND)
        yield from ()

    def leaving(self, host: str, incarnation: str) -> Iterator[str]:
        """``leaving b 1``: that process says to all that it is about to end and asks to be dropped"""
        yield from self._stopping(host, incarnation, is_leaving=True)

    def stopping(self, host: str, incarnation: str) -> Iterator[str]:
        """``stopping b 1``: that process says to all, itself included, that it is about to end"""
        yield from self._stopping(host, incarnation, is_leaving=False)

    def _stopping(self, host: str, incarnation: str, *, is_leaving: bool) -> Iterator[str]:
        told = Stopping(int(incarnation), is_leaving)  # type: ignore[arg-type]  # an id
        for other in HOSTS:
            if other != host:
                self.world.network.send(host, other, told)
            elif not is_leaving:
                self.world.nodes[host].core.on_message(host, told)
        self._run(20 * MILLISECOND)
        yield from ()

    def successors(self, host: str) -> Iterator[str]:
        """``successors a``: the hosts to which a would hand over"""
        yield " ".join(self.world.nodes[host].core.members[GROUP].successors()) or "nobody"

    def hand(self, _over: str, _from: str, host: str, _to: str, other: str) -> Iterator[str]:
        """``hand over from a to b``"""
        self.world.nodes[host].core.members[GROUP].hand_over(other)
        self._run(20 * MILLISECOND)
        yield from ()

    def inspect(self, by: str) -> Iterator[str]:
        """``inspect b``: b asks all members what they have, and shows what would be lost from whom"""
        self._found = found = self._inspected(by)
        for held in found.held:
            losses = found.losses(held.member.host)
            yield losses.text
        if found.silent:
            yield f"silent: {' '.join(found.silent)}"

    def recover(self, by: str, _from: str, source: str) -> Iterator[str]:
        """``recover b from c``: b lets the group continue from what c has, unless that has changed since"""
        answers: list[object] = []
        try:
            self._recovery(by).recover(self._found, source, answers.append)
        except InvalidRequest as error:
            yield f"refused: {error}"
            return
        self._run_until(lambda: bool(answers))
        yield self._view()

    def _recovery(self, host: str) -> Recovery:
        recovery: Recovery = self.world.nodes[host].core.recovery
        return recovery

    def _inspected(self, by: str) -> Inspection:
        answers: list[Inspection] = []
        self._recovery(by).inspect(GROUP, HOSTS, answers.append)
        self._run_until(lambda: bool(answers))
        return answers[0]

    # --- running and showing

    def do(self, command: str) -> list[str]:
        name, *words = command.split()
        lines = list(getattr(self, {"await": "await_"}.get(name, name))(*words))
        violations = [f"VIOLATION {each.rule}: {each.message}" for each in self.world.violations]
        return [*self._news(), *lines, *violations]

    def _news(self) -> Iterator[str]:
        self.world.trace.hash()  # moves all lines to those that are kept
        kept = self.world.trace.kept
        assert kept is not None
        for line in kept[self._said :]:
            found = NOTE.match(line)
            if found is not None and found[2] in SENTENCES:
                fields = ast.literal_eval(found[3])
                fields["of"] = fields.get("of", found[1])
                if not self._is_told(fields):
                    continue
                yield SENTENCES[found[2]](**{"host": found[1], **fields})
        self._said = len(kept)

    def _is_told(self, fields: dict[str, Any]) -> bool:
        """Whether a transcript shows what a host noted."""
        return True

    def _ask(self, host: str, token: str, number: int) -> str:
        host = disk_damage.views(self.world)[0].primary if host == "primary" else host
        client: Client = self.world.nodes["client"].core
        client.answers.pop(number, None)
        client.ports.network.send(host, Ask(GROUP, ClientId("client"), number, token))
        self._run_until(lambda: number in client.answers, WAIT_NS)
        match client.answers.get(number):
            case Reply(place=place, tokens=tokens):
                return f"{host}: {place if token else ' '.join(tokens) or 'nothing'}"
            case Elsewhere(primary=primary):
                return f"{host}: not here{f', try {primary}' if primary else ''}"
        return f"{host}: no answer"

    def _view(self) -> str:
        for view in disk_damage.views(self.world):
            return f"view {view.epoch}: {_starred(view.primary, [member.host for member in view.members])}"
        return "no view"

    def _is_served(self) -> bool:
        for view in disk_damage.views(self.world):
            core: Host | None = self.world.nodes[view.primary].core
            if core is None or GROUP not in core.members or not core.members[GROUP].is_serving:
                return False
            return core.members[GROUP].epoch == view.epoch
        return False

    def _run(self, time_ns: int) -> None:
        self.world.run_until(self.world.now + time_ns)

    def _run_until(self, holds: Callable[[], bool], latest_ns: int = LATEST_NS) -> None:
        end = self.world.now + latest_ns
        while not holds() and self.world.now < end and not self.world.violations:
            self._run(MILLISECOND)


def replay(text: str) -> str:
    """Return the transcript with what is seen now."""
    domain = _domain(text)
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.partition("\n----")[0].split("\n")
        commands = [line for line in lines if line and not line.startswith("#")]
        seen = [said for command in commands for said in domain.do(command)]
        blocks.append("\n".join([*lines, "----", *seen] if commands else lines))
    return "\n\n".join(blocks) + "\n"


def _domain(text: str) -> Domain:
    """Return a domain of groups with objects where the transcript is about calls; otherwise of a sequence
    alone."""
    if not re.search("^groups ", text, re.MULTILINE):
        return Domain()
    from called_domain import CalledDomain  # which imports this module

    return CalledDomain()


def main() -> None:
    parser = argparse.ArgumentParser(description="replay the transcripts")
    parser.add_argument("names", nargs="*", help="of transcripts; all when none is given")
    parser.add_argument("--rewrite", action="store_true", help="keep what is seen now")
    arguments = parser.parse_args()
    for path in sorted(FOLDER.glob("*.txt")):
        if arguments.names and path.stem not in arguments.names:
            continue
        now = replay(path.read_text(encoding="utf-8"))
        if arguments.rewrite:
            path.write_text(now, encoding="utf-8")
        sys.stdout.write(f"=== {path.name}\n{now}\n")


if __name__ == "__main__":
    main()
