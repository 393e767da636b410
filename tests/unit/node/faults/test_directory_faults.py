"""What the notifier hears of a directory."""

from collections.abc import Callable

from holdfast.faults.events import Location
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.ids import HostId
from holdfast.node.faults.directory_faults import DirectoryFaults


class Scene:
    def __init__(self) -> None:
        self.reports: list[tuple[str, FaultReport]] = []
        self.due: list[Callable[[], None]] = []
        self.faults = DirectoryFaults(
            HostId("a"),
            "main",
            lambda: Location.parse("a"),
            self,
            lambda _, work: self.due.append(work),
        )

    def report(self, report: FaultReport, *, once: str = "") -> None:
        self.reports.append((once, report))

    def refuse(self, reason: str) -> None:
        fields = {"peer": "b", "reason": reason, "why": "its clock is 2 h ahead"}
        self.faults.on_note("directory_peer_refused", fields)

    def told(self) -> list[tuple[FaultKind, dict[str, object]]]:
        found = [(each.kind, dict(each.details)) for _, each in self.reports]
        self.reports.clear()
        return found


def test_a_refused_peer_is_told_once_and_once_more_when_it_is_back() -> None:
    scene = Scene()
    scene.refuse("skew")
    scene.refuse("skew")
    assert scene.told() == [(FaultKind.CLOCK_SKEW, {"HostId": "b"})]
    scene.refuse("generation")
    assert scene.told() == [(FaultKind.PEER_REFUSED, {"HostId": "a", "Peer": "b", "Reason": "generation"})]
    scene.faults.on_note("directory_link_open", {"peer": "b", "replica": 2})
    scene.faults.on_note("directory_link_open", {"peer": "b", "replica": 2})
    assert scene.told() == [(FaultKind.RECOVERED, {"HostId": "b", "From": "PeerRefused"})]
    scene.refuse("retired")  # it takes a new id by itself
    assert scene.told() == []


def test_links_of_two_suffixes_to_one_peer_are_told_apart() -> None:
    scene = Scene()
    for suffix in ("o=one", "o=two"):
        scene.faults.on_note(
            "directory_peer_refused", {"suffix": suffix, "peer": "b", "reason": "skew", "why": "2 h ahead"}
        )
    scene.faults.on_note("directory_link_open", {"suffix": "o=two", "peer": "b", "replica": 2})
    scene.faults.on_note("directory_link_open", {"suffix": "o=third", "peer": "b", "replica": 2})
    assert [(each.kind, each.why) for _, each in scene.reports] == [
        (FaultKind.CLOCK_SKEW, "o=one: 2 h ahead"),
        (FaultKind.CLOCK_SKEW, "o=two: 2 h ahead"),
        (FaultKind.RECOVERED, "o=two: a replicates with b again"),
    ]


def test_a_replica_that_nobody_can_supply_is_told() -> None:
    scene = Scene()
    short = {"peer": "b", "replica": 3, "why": "the changelog begins after what you lack"}
    scene.faults.on_note("directory_cannot_be_supplied", short)
    scene.faults.on_note("directory_cannot_be_supplied", short)
    scene.faults.on_note("directory_needs_initialisation", {"replica": 4, "trimmed": "..."})
    assert scene.told() == [
        (FaultKind.NEEDS_INITIALISATION, {"HostId": "a", "Replica": 3}),
        (FaultKind.NEEDS_INITIALISATION, {"HostId": "a", "Replica": 4}),
    ]


def test_many_conflicts_at_once_are_two_reports() -> None:
    """The first is told at once and under a key that all masters share; the others together."""
    scene = Scene()
    for number in range(50):
        scene.faults.on_note("directory_conflict", {"conflict": f"c{number}"})
    assert scene.reports[0][0] == "directory/c0"
    assert scene.told() == [(FaultKind.CONFLICT, {"Conflict": "c0", "Count": 1})]
    scene.due.pop(0)()
    assert scene.told() == [(FaultKind.CONFLICT, {"HostId": "a", "Count": 49})]
    assert scene.due == []
    scene.faults.on_note("directory_conflict", {"conflict": "c50"})
    assert scene.told() == [(FaultKind.CONFLICT, {"Conflict": "c50", "Count": 1})]
