"""MessageLoss faults: people are told of a stream that loses, not of each message."""

from holdfast.faults.backlog import Backlog
from holdfast.faults.events import Location
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.machine import MachineClock
from holdfast.model.ids import SECOND, GroupId
from holdfast.node.streams.loss_reports import LossReports
from holdfast.streams.delivering import FAILED


class Scene:
    """A host that leads the group of ``orders``."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.filed: list[FaultReport] = []
        backlog = Backlog(MachineClock())
        backlog.report = lambda report, once="": self.filed.append(report)  # type: ignore[method-assign]
        self.reports = LossReports(
            backlog,
            "main",
            Location.parse("host1"),
            lambda: self.now_ns,
            lambda stream: (GroupId(4), "book:Book") if stream == "orders" else None,
        )

    def decide(self, first: int, last: int, stream: str = "orders") -> None:
        self.reports.on_note(
            "decided", {"stream": stream, "lost": f"{first} to {last}", "action": "drop", "by": "leader"}
        )


def test_one_report_in_a_while() -> None:
    """The first loss is told at once, the next ones together."""
    scene = Scene()
    scene.decide(3, 4)
    for number in range(100):
        scene.decide(10 + 2 * number, 10 + 2 * number)
    assert len(scene.filed) == 1
    scene.now_ns += 5 * SECOND
    scene.decide(900, 909)
    first, second = scene.filed
    assert (first.kind, first.group) == (FaultKind.MESSAGE_LOSS, GroupId(4))
    assert dict(first.details) == {"Stream": "orders", "FirstLost": 3, "LastLost": 4}
    assert dict(second.details) == {"Stream": "orders", "FirstLost": 10, "LastLost": 909}
    assert "101 losses, 110 messages" in second.why


def test_only_the_leader_tells() -> None:
    scene = Scene()
    scene.decide(1, 2, stream="another")
    scene.reports.on_note("won", {"stream": "orders"})
    assert scene.filed == []


def test_what_a_class_raised_at_is_told_beside_the_losses() -> None:
    """It is a report of its own, at the same pace: neither holds the other back."""
    scene = Scene()
    scene.decide(3, 4)
    for first in range(10, 40, 10):
        scene.reports.on_note(
            FAILED,
            {
                "stream": "orders",
                "messages": f"{first} to {first + 4}",
                "method": "on_messages",
                "why": "ValueError: no",
            },
        )
        scene.now_ns += 2 * SECOND
    assert len(scene.filed) == 2
    _, told = scene.filed
    assert (told.kind, told.group) == (FaultKind.MESSAGE_LOSS, GroupId(4))
    assert dict(told.details) == {"Stream": "orders", "FirstLost": 10, "LastLost": 14}
    assert told.why.startswith("1 calls of on_messages with 5 messages did not return")
    assert told.why.endswith("ValueError: no")


def test_a_notice_that_was_raised_at_has_no_numbers() -> None:
    scene = Scene()
    scene.reports.on_note(FAILED, {"stream": "orders", "messages": "", "method": "on_action", "why": "x"})
    (told,) = scene.filed
    assert "on_action with 0 messages" in told.why
