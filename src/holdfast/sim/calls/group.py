"""What a group holds, as its members agree on it: one sequence, one table, one primary at a time.

The agreement itself is not simulated here (the scenario `groups` does): whatever commits goes through
`commit`, which refuses an older epoch. What a primary has ordered and not committed when another takes over
may survive it or not, as K1 leaves it.
"""

import random
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.model.ids import ClientId, Epoch, GroupId, HostId, Position
from holdfast.model.outcome import Raised, Refused, encode_outcome, encode_returned
from holdfast.model.reference import MemberAddress, Reference
from holdfast.model.units import SECOND
from holdfast.sequence.retention import ABANDONED, EXPIRED, NEVER, Fresh, InProgress, Repeated, Retention
from holdfast.sim.clocks import WALL_START
from holdfast.sim.world import World
from holdfast.styles.operation import Call, Sent, decode_calls, encode_arguments

GROUP: Final = GroupId(7)
NAME: Final = "tokens"
SURVIVES: Final = 0.5

REFUSALS: Final = {
    EXPIRED: encode_outcome(Refused("expired", EXPIRED.why)),
    ABANDONED: encode_outcome(Refused("abandoned", ABANDONED.why)),
    NEVER: encode_outcome(Refused("never_runs", NEVER.why)),
}
READ: Final = "read"
APPEND: Final = "append"
FAIL: Final = "fail"
"""Appends its token, then raises."""


@dataclass(slots=True)
class Batch:
    """Calls that a primary has ordered; outcomes once it is committed."""

    epoch: Epoch
    sent: Sent
    calls: list[Call]
    outcomes: list[bytes] | None = None


@dataclass(frozen=True, slots=True)
class View:
    epoch: Epoch
    primary: HostId


class Group:
    """One group of one run."""

    def __init__(self, world: World, hosts: tuple[str, ...]) -> None:
        self.world = world
        self.hosts = tuple(HostId(host) for host in hosts)
        self.view = View(Epoch(1), self.hosts[0])
        self.tokens: list[str] = []
        self.position = Position(0)
        self.table = Retention()
        self._ordered: list[Batch] = []
        self._rng: random.Random = world.rng("group")
        self._ahead_ns = 0
        self._stamped_ns = 0

    # --- who serves

    def reference(self, view: View) -> Reference:
        members = tuple(MemberAddress(host, f"{host}:1") for host in self.hosts)
        return Reference(GROUP, NAME, view.epoch, view.primary, members)

    def take_over(self, host: HostId) -> None:
        """*host* is primary from now on. What the last one had ordered survives in part."""
        ordered, self._ordered = self._ordered, []
        self.view = View(Epoch(self.view.epoch + 1), host)
        self.table = Retention.load(self.table.save())
        self._ahead_ns = self._rng.randrange(SECOND // 2)
        for batch in ordered:
            if self._rng.random() < SURVIVES:
                self.world.sometimes("calls survived their primary")
                self._execute(batch)

    def time_ns(self) -> int:
        """What the primary would stamp now: its own clock's, and never less than before."""
        self._stamped_ns = max(self._stamped_ns, WALL_START + self.world.now + self._ahead_ns)
        return self._stamped_ns

    # --- the sequence

    def order(self, view: View, sent: Sent) -> Batch:
        batch = Batch(view.epoch, sent, decode_calls(sent.calls))
        if view == self.view:
            self._ordered.append(batch)
        return batch

    def commit(self, batch: Batch) -> bool:
        """Whether it is committed; false for a primary that has been replaced (S2)."""
        if batch.epoch != self.view.epoch:
            return False
        # In order: what was ordered before it is committed with it.
        while batch.outcomes is None:
            self._execute(self._ordered.pop(0))
        return True

    def settle(self, client: ClientId, number: int, expiration_s: int) -> bytes:
        """An ordered question for an outcome (X3)."""
        while self._ordered:
            self._execute(self._ordered.pop(0))
        self._advance(1)
        verdict = self.table.settle(client, number, expiration_s)
        return verdict.reply if isinstance(verdict, Repeated) else REFUSALS[verdict]  # type: ignore[index]  # nothing is in progress here

    def _execute(self, batch: Batch) -> None:
        sent, table = batch.sent, self.table
        first = self._advance(len(batch.calls))
        table.raise_floor(sent.client, sent.floor, sent.horizon_s)
        batch.outcomes = []
        for index, call in enumerate(batch.calls):
            if call.method == READ:
                batch.outcomes.append(encode_returned(self.tokens))
                continue
            verdict = table.judge(sent.client, call.number, call.expiration_s)
            if isinstance(verdict, Fresh):
                table.begin(sent.client, call.number, Position(first + index), call.expiration_s)
                outcome = self._run(call)
                table.finish(sent.client, call.number, outcome)
            elif isinstance(verdict, Repeated):
                self.world.sometimes("a repetition got the first reply")
                outcome = verdict.reply
            else:
                assert not isinstance(verdict, InProgress)
                self.world.sometimes(f"refused: {verdict.why}")
                outcome = REFUSALS[verdict]
            batch.outcomes.append(outcome)

    def _advance(self, count: int) -> Position:
        first = Position(self.position + 1)
        self.position = Position(self.position + count)
        self.table.advance(self.time_ns() // SECOND)
        return first

    def _run(self, call: Call) -> bytes:
        token = token_of(call)
        self.tokens.append(token)
        if call.method == FAIL:
            return encode_outcome(Raised("ValueError", f"{token}@{len(self.tokens)}"))
        return encode_returned([token, len(self.tokens)])


def arguments_of(token: str) -> bytes:
    return bytes(encode_arguments((token,), {}))


def token_of(call: Call) -> str:
    return msgspec.msgpack.decode(call.arguments, type=tuple[str])[0]
