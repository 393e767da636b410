"""The domain of transcripts about calls: two groups of objects on the production host (X, E).

Group ``g`` is placed on a, b and c, group ``h`` on c alone; both are lists of tokens
(:mod:`holdfast.sim.scenarios.groups.objects`). Requests have numbers, so that a copy can come late. Output
about views is about ``g``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from transcript import GROUP, HOSTS, Domain

from holdfast.authority.groups import GroupRecord, Placement
from holdfast.execution.records import Call, Sent, encode_arguments, encode_calls
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.settings import GroupsConfig
from holdfast.model.calls import Calls, Replies, Seen, Settle, ToHost, Turned
from holdfast.model.ids import MILLISECOND, SECOND, ClientId, GroupId, HostId, Nonce, StoreId
from holdfast.model.outcome import Poisoned, Raised, Refused, Returned, decode_outcome
from holdfast.sequence.recovery import Recovery
from holdfast.sim.checkers import History
from holdfast.sim.engine.clocks import ClockOptions
from holdfast.sim.scenarios.authority.observer import LeaseBook, Truth
from holdfast.sim.scenarios.authority.server import AUTHORITY, AuthorityNode
from holdfast.sim.scenarios.deploy.host import CodedHost
from holdfast.sim.scenarios.groups.failing_objects import FOR_EVER_NS, Deaths
from holdfast.sim.scenarios.groups.host import Codec, Host
from holdfast.sim.scenarios.groups.observer import Book, Losses
from holdfast.sim.scenarios.groups.setup import CALLING, Stage
from holdfast.sim.scenarios.groups.space_faults import SPACE
from holdfast.sim.scenarios.sequence import disk_damage
from holdfast.sim.scenarios.sequence.host import CONFIG
from holdfast.sim.scenarios.sequence.lease_settings import LEASES
from holdfast.styles.config import StyleConfig

CLIENT = ClientId("client")
DURATION_S = 60
ANSWER_NS = 2 * SECOND
MOMENT_NS = 50 * MILLISECOND
NAMES = {"g": GROUP, "h": GroupId(2)}
_raw = msgspec.msgpack.Encoder()


@dataclass(eq=False)
class Asker:
    """The sender of a frame (:class:`holdfast.groups.ports.ClientPort`)."""

    answers: list[str] = field(default_factory=list)

    def send(self, message: object) -> None:
        match message:
            case Replies(outcomes=outcomes):
                self.answers += [_in_words(decode_outcome(outcome)) for outcome in outcomes]
            case Turned(code=code):
                self.answers.append(f"turned away: {code.name.lower()}")

    def hang_up(self, why: str) -> None:
        self.answers.append("hangs up")


def _in_words(outcome: Any) -> str:
    match outcome:
        case Returned(value=list(value)):
            return " ".join(map(str, value)) or "nothing"
        case Returned(value=value):
            return str(value)
        case Raised(text=text):
            return f"raised {text}"
        case Refused(code=code):
            return f"refused: {code}"
        case Poisoned(attempts=attempts):
            return f"poisoned: it ended {attempts} processes"
    return str(outcome)


class CalledDomain(Domain):
    """Commands besides those of every domain: ``call``, ``outcome``, ``show``, ``jump``, ``spoil``,
    ``sway``, ``steady``, ``fitness``, ``deploy``, ``lose``."""

    def __init__(self, style: StyleConfig | None = None) -> None:
        super().__init__()
        self._style = style or StyleConfig()
        self._patience_ns = ANSWER_NS
        self._expirations: dict[str, int] = {}
        """When each request expires; a repetition expires at the same time."""

    def groups(self, style: str, version: str = "") -> Iterator[str]:
        """``groups warm_passive``; or ``groups warm_passive 1``, with classes that come in versions"""
        world, clock, hosts = self.world, ClockOptions(), tuple(HostId(name) for name in HOSTS)
        world.network.codec = Codec()
        truth = Truth(world)
        stage = Stage(
            hosts,
            (_record("g", style, hosts), _record("h", style, hosts[-1:])),
            GroupsConfig(leases=LEASES, sequence=CONFIG, style=self._style, calling=CALLING, space=SPACE),
            turn_ns=0,
            hand_overs=0.0,
            deadly=0,
        )
        self.book = book = Book(world, History(world.time), Deaths(world, hosts), Losses(world, truth))
        book.deploys.first = version or book.deploys.first
        node = partial(AuthorityNode, truth=truth, leases=LeaseBook(world))
        world.add_node(AUTHORITY, node, clock=clock)
        for name in HOSTS:
            host = CodedHost if version else Host
            world.add_node(name, partial(host, book=book, stage=stage), clock=clock)
        self._run_until(lambda: [len(view.members) for view in disk_damage.views(world)] == [len(HOSTS), 1])
        self._run_until(self._is_served)
        self._time_ns = self._housing("a").stamps.time_ns()
        yield from ()

    def deploy(self, version: str, *hosts: str) -> Iterator[str]:
        """``deploy 2 a b``: the version that these hosts have from their next start on"""
        for host in hosts:
            self.book.deploys.deploy(HostId(host), version)
        yield from ()

    def lose(self, version: str, *hosts: str) -> Iterator[str]:
        """``lose 1 a b``: remove the version's sources from these hosts"""
        for host in hosts:
            self.book.deploys.lose(HostId(host), version)
        yield from ()

    def call(self, host: str, number: str, method: str, *arguments: str) -> Iterator[str]:
        """``call a 1 append x``: request 1, to host a; the same number is the same request. Lists of groups
        to call are written ``[h]``."""
        found = [each[1:-1].split(",") if each.startswith("[") else each for each in arguments]
        expires_s = self._expirations.setdefault(number, self._expiration_s())
        call = Call(int(number), method, encode_arguments(tuple(found), {}), expires_s)
        sent = Sent(CLIENT, 1, expires_s, encode_calls([call]))
        yield self._ask_host(host, lambda seen: Calls(1, GROUP, *seen, msgspec.Raw(_raw.encode(sent))))

    def together(self, *words: str) -> Iterator[str]:
        """``together 1 g relay r [h] & 2 h relay s [g]``: requests to the primaries of these groups, sent at
        the same moment; shows how each ends"""
        askers: dict[str, Asker] = {}
        for text in " ".join(words).split(" & "):
            number, name, method, *arguments = text.split()
            view = next(view for view in disk_damage.views(self.world) if view.group == NAMES[name])
            found = [each[1:-1].split(",") if each.startswith("[") else each for each in arguments]
            expires_s = self._expirations.setdefault(f"{name}{number}", self._expiration_s())
            call = Call(int(number), method, encode_arguments(tuple(found), {}), expires_s)
            sent = msgspec.Raw(_raw.encode(Sent(CLIENT, 1, expires_s, encode_calls([call]))))
            node, askers[name] = self.world.nodes[view.primary], Asker()
            message = Calls(1, view.group, view.epoch, Seen(), sent)
            node.run(node.life, self._housing(view.primary).serving.on_call, askers[name], message)
        self._run_until(lambda: all(each.answers for each in askers.values()), ANSWER_NS)
        for name, asker in askers.items():
            yield f"{name}: {asker.answers[0] if asker.answers else 'no answer'}"

    def leave(self, *words: str) -> Iterator[str]:
        """``leave a 1 append x``: a call whose client does not wait for the answer"""
        self._patience_ns = MOMENT_NS
        yield from self.call(*words)
        self._patience_ns = ANSWER_NS

    def outcome(self, host: str, number: str) -> Iterator[str]:
        """``outcome a 1``: ask for the outcome of request 1; if it has not run, it never will (X3)"""
        about = (CLIENT, int(number), self._expiration_s())
        yield self._ask_host(host, lambda seen: Settle(1, GROUP, *seen, 1000 + int(number), *about))

    def show(self, name: str, attribute: str) -> Iterator[str]:
        """``show h notes``: the content of the primary's object"""
        view = next(view for view in disk_damage.views(self.world) if view.group == NAMES[name])
        execution = self._housing(view.primary).hosted[view.group].replica.execution
        assert execution is not None
        found = getattr(execution.line.instance, attribute)
        said = [each if isinstance(each, str) else f"({' '.join(each)})" for each in found]
        yield f"{name} {attribute}: {' '.join(said) or 'none'}"

    def hand(self, _over: str, _from: str, host: str, _to: str, other: str) -> Iterator[str]:
        """``hand over from a to b``; the handover may not happen"""
        host = disk_damage.views(self.world)[0].primary if host == "primary" else host
        self._housing(host).ask_hand_over(GROUP, HostId(other))
        self._run_until(
            lambda: disk_damage.views(self.world)[0].primary == other and self._is_served(), 2 * SECOND
        )
        yield from ()

    def spoil(self, host: str) -> Iterator[str]:
        """``spoil b``: let something on that host change its object"""
        execution = self._housing(host).hosted[GROUP].replica.execution
        assert execution is not None
        execution.line.instance.tokens.append("stray")  # type: ignore[attr-defined]  # of Tokens
        self.book.health.divergences.hosts[host] = None
        yield from ()

    def withhold(self, host: str) -> Iterator[str]:
        """``withhold b``: give its host a reason why the object there must not be used for the group"""
        hosted = self._housing(host).hosted[GROUP]
        hosted.replica.readiness.go_without("its host has other code")
        hosted.ask_turn()
        self._run(MOMENT_NS)
        yield from ()

    def sway(self, host: str) -> Iterator[str]:
        """``sway b``: from now on, what is executed again there gives other results"""
        self.book.health.divergences.begin(host, FOR_EVER_NS, is_silent=False)
        yield from ()

    def steady(self) -> Iterator[str]:
        """``steady``: end this on every host"""
        self.book.health.divergences.end()
        yield from ()

    def fitness(self) -> Iterator[str]:
        """``fitness``: which members could become primary"""
        for host in HOSTS:
            core = self.world.nodes[host].core
            if core is not None and core.groups is not None:
                found = core.groups.hosted[GROUP].style.fitness()
                yield f"{host}: {found.rank.name.lower()}{f', {found.why}' if found.why else ''}"

    def jump(self, host: str, hours: str) -> Iterator[str]:
        """``jump a 2``: set its clock that many hours ahead"""
        self.world.nodes[host].clock.jump_wall(int(hours) * 3600 * SECOND)
        yield from ()

    # --- how

    def _recovery(self, host: str) -> Recovery:
        return self._housing(host).recovery

    def _housing(self, host: str) -> HostGroups:
        groups: HostGroups | None = self.world.nodes[host].core.groups
        assert groups is not None
        return groups

    def _expiration_s(self) -> int:
        """Return the expiration in the group's time, as the client learned it when it connected."""
        return (self._time_ns + self.world.now) // SECOND + DURATION_S

    def _ask_host(self, host: str, make: Any) -> str:
        host = disk_damage.views(self.world)[0].primary if host == "primary" else host
        node, asker = self.world.nodes[host], Asker()
        if node.core is None or node.core.groups is None:
            return f"{host}: is not there"
        groups = self._housing(host)
        message: ToHost = make((disk_damage.views(self.world)[0].epoch, Seen()))
        node.run(node.life, groups.serving.on_call, asker, message)
        self._run_until(lambda: bool(asker.answers), self._patience_ns)
        return f"{host}: {asker.answers[0] if asker.answers else 'no answer'}"

    def _is_served(self) -> bool:
        view = next((view for view in disk_damage.views(self.world) if view.group == GROUP), None)
        core: Host | None = self.world.nodes[view.primary].core if view is not None else None
        if view is None or core is None or core.groups is None:
            return False
        hosted = core.groups.hosted.get(GROUP)
        return hosted is not None and hosted.is_ready and hosted.member.epoch == view.epoch

    def _is_told(self, fields: dict[str, Any]) -> bool:
        return fields.get("group") in (GROUP, "g")


def _record(name: str, style: str, hosts: tuple[HostId, ...]) -> GroupRecord:
    return GroupRecord(
        group=NAMES[name],
        class_name="echo" if style == "stateless" else "tokens",
        style=style,
        members=tuple(Placement(host=host, store=StoreId("")) for host in hosts),
        nonce=Nonce(f"create/{name}"),
        name=name,
        min_in_sync=min(2, len(hosts)),
    )
