"""What a host reports of what it observes anyway: deaths, lost sessions, shrinking views, failing objects."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from holdfast.admin.snapshot import fault_location
from holdfast.authority.groups import GroupRecord, Placement
from holdfast.authority.sessions import Session
from holdfast.authority.views import Cause, View, ViewMember, Why
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, StoreId
from holdfast.model.system_groups import NOTIFIER
from holdfast.node.faults import detector as witness_module
from holdfast.node.faults.detector import FaultDetector
from holdfast.node.messages import HostDied

A, B, C, D = (HostId(each) for each in "abcd")


class Clock:
    time_ns = 1_000

    def now(self) -> int:
        return self.time_ns

    def wall(self) -> int:
        return self.time_ns


class Scene:
    """What host *me* knows of a domain of four hosts, and what it reports."""

    def __init__(self, me: HostId = A, *hosts: HostId) -> None:
        self.reports: list[tuple[str, FaultReport]] = []
        self.clock = Clock()
        self.heard: list[HostId] = []
        self.directory: Any = SimpleNamespace(
            sessions={each: session(each) for each in hosts or (A, B, C, D)},
            records={GroupId(7): record(7, "ledger", A, B), GroupId(8): record(8, "cart", A, C)},
            find=self._find,
        )
        self.due: list[Callable[[], None]] = []
        self.detector = FaultDetector(
            me,
            "main",
            self.directory,
            self,
            self.clock,
            is_heard=lambda host: host in self.heard,
            later=lambda _, work: self.due.append(work),
        )
        self.detector.on_sessions(self.directory.sessions)

    def report(self, report: FaultReport, *, once: str = "") -> None:
        self.reports.append((once, report))

    def told(self) -> list[tuple[str, str, str]]:
        while self.due:
            self.due.pop(0)()
        found = [(each.kind.value, str(each.location), once) for once, each in self.reports]
        self.reports.clear()
        return found

    def change(self, **changes: Session | None) -> None:
        for host, found in changes.items():
            if found is None:
                self.directory.sessions.pop(HostId(host))
            else:
                self.directory.sessions[HostId(host)] = found
        self.detector.on_sessions(self.directory.sessions)

    def _find(self, name: str) -> GroupId | None:
        return next((group for group, each in self.directory.records.items() if each.name == name), None)


def session(host: HostId, incarnation: int = 4, **details: str) -> Session:
    return Session(
        host=host,
        incarnation=Incarnation(incarnation),
        address="127.0.0.1:1",
        nonce=Nonce("n"),
        details=details,
    )


def record(group: int, name: str, *hosts: HostId) -> GroupRecord:
    members = tuple(Placement(host=each, store=StoreId("s")) for each in hosts)
    return GroupRecord(
        group=GroupId(group),
        class_name=f"app:{name}",
        style="active",
        members=members,
        nonce=Nonce("n"),
        name=name,
    )


def died(host: HostId, *, is_crash: bool = True) -> HostDied:
    return HostDied(
        host=host, incarnation=Incarnation(4), proof="waitpid", how="was ended by SIGKILL", is_crash=is_crash
    )


def test_a_proven_death_is_reported_with_all_that_died() -> None:
    """The host's death is reported in our terms and in the specification's, and its members by the first
    reporter, under the same keys that every other host would use."""
    scene = Scene()
    scene.detector.on_died(died(B))
    crash = scene.reports[0][1]
    assert crash.name == "b/4"  # like everything that follows from it
    assert crash.details == {"HostId": "b", "Incarnation": 4, "IsProven": True}
    assert scene.told() == [
        ("HostCrash", "b", "b/4/death"),
        ("ObjectCrashFault", "b", "b/4/objects"),
        ("ObjectCrashFault", "b", "b/4/7"),
    ]


def test_few_hosts_report_what_all_of_them_see() -> None:
    """The hosts that run the notifier report; before there is one, three hosts do. One reports the
    members.
    """
    told = {}
    for me in (A, C, D):
        scene = Scene(me)
        scene.detector.on_died(died(B))
        told[me] = [once for _, _, once in scene.told()]
    assert [len(each) for each in told.values()] == [3, 2, 2]
    hosting = Scene(D)
    hosting.directory.records[GroupId(1)] = record(1, NOTIFIER, B, C)
    hosting.detector.on_died(died(B))
    assert hosting.told() == []


def test_an_end_in_order_is_no_fault() -> None:
    scene = Scene()
    scene.detector.on_died(died(B, is_crash=False))
    scene.change(b=None)
    assert scene.told() == []


def test_a_host_that_is_back_has_recovered() -> None:
    """The recovery is reported once, even if the next process was in session before the word of the death."""
    scene = Scene()
    scene.detector.on_died(died(B))
    scene.told()
    scene.clock.time_ns += 500
    scene.change(b=session(B, 5))
    assert scene.reports[0][1].details == {"HostId": "b", "From": "HostCrash", "AfterNs": 500}
    assert scene.told() == [("Recovered", "b", "b/5/back")]
    scene.change(b=session(B, 5))
    assert scene.told() == []
    late = Scene()
    late.change(c=session(C, 5))
    late.detector.on_died(died(C))
    assert "Recovered" in [kind for kind, _, _ in late.told()]


def test_a_silent_host_out_of_session_is_reported_without_proof() -> None:
    """The report waits a moment in which proof may come, and is not made while its heartbeats are heard."""

    def proven(*, is_heard: bool = False, is_told: bool = False, is_back: bool = False) -> list[object]:
        scene = Scene()
        scene.heard = [B] if is_heard else []
        scene.change(b=None)
        if is_told:
            scene.detector.on_died(died(B))
        if is_back:
            scene.change(b=session(B))
        for work in scene.due:
            work()
        crashes = [each for _, each in scene.reports if each.kind is FaultKind.HOST_CRASH]
        return [each.details["IsProven"] for each in crashes]

    assert proven() == [False]
    assert proven(is_heard=True) == []
    assert proven(is_back=True) == []
    assert proven(is_told=True) == [True]


def test_a_view_that_lost_a_member_is_reported_by_its_primary() -> None:
    """Other hosts do not report it, and neither intended changes nor old ones are reported."""

    def view(primary: HostId, why: Why, lost: HostId = B, at_ns: int = 1_000) -> View:
        member = ViewMember(host=primary, store=StoreId("s"), incarnation=Incarnation(4), opening=Opening(1))
        cause = Cause(why=why, host=lost, at_ns=at_ns)
        return View(
            group=GroupId(7),
            epoch=Epoch(9),
            primary=primary,
            members=(member,),
            nonce=Nonce("n"),
            cause=cause,
        )

    scene = Scene()
    for each in (view(C, Why.DEAD), view(A, Why.REMOVED), view(A, Why.OWN, lost=A), view(A, Why.ADDED)):
        scene.detector.on_view(each)
    scene.clock.time_ns += 10 * witness_module.VIEW_NEWS_NS
    scene.detector.on_view(view(A, Why.DROPPED))
    assert scene.told() == []
    scene.detector.on_view(view(A, Why.DROPPED, at_ns=scene.clock.time_ns))
    assert scene.reports[0][1].details == {"Epoch": 9, "InSync": 1, "MinInSync": 1}
    assert scene.told() == [("InSyncShrunk", "b", "7/9/shrunk")]


def test_faults_of_objects_here_are_reported() -> None:
    scene = Scene()
    scene.detector.on_fault(GroupId(7), "divergence", "it gave 3, recorded is 4")
    scene.detector.on_fault(GroupId(7), "poisoned", "not a fault of the member")
    scene.detector.on_halted(GroupId(8), "its class is gone")
    scene.detector.on_halted(GroupId(99), "of no group that is known")
    assert [(kind, where) for kind, where, _ in scene.told()] == [
        ("Divergence", "a"),
        ("ObjectCrashFault", "a"),
    ]


def test_a_location_ends_with_the_host() -> None:
    """A location starts with the host's region, if there is one, and is never longer than an event can
    hold.
    """
    assert str(fault_location(B, "b")) == "b"
    assert str(fault_location(B, "dc1/rack2")) == "dc1/rack2/b"
    assert [each.kind for each in fault_location(B, "dc1").parts] == ["", "hostname"]
    assert len(fault_location(B, "/".join("x" * 16)).parts) == 16


def test_a_store_that_is_damaged_is_reported_by_the_others() -> None:
    """The host itself has ended because of it."""
    scene = Scene()
    scene.detector.on_died(
        HostDied(host=B, incarnation=Incarnation(4), proof="waitpid", how="exited", is_damaged=True)
    )
    assert scene.told() == [("DamagedStore", "b", "b/4/damage")]


def test_a_clock_that_is_wrong_is_reported_until_it_is_right() -> None:
    scene = Scene()
    scene.detector.on_skew(-7_200 * 10**9)
    scene.clock.time_ns += 5
    scene.detector.on_skew(0)
    skew, right = (each for _, each in scene.reports)
    assert (skew.kind, skew.details) == (FaultKind.CLOCK_SKEW, {"HostId": "a", "SkewNs": -7_200 * 10**9})
    assert right.details == {"HostId": "a", "From": "ClockSkew", "AfterNs": 5}
