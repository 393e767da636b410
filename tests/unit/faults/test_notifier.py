"""Tests the notifier as the object of a group: what it takes, what it tells to whom, and under which
number."""

from typing import Any

import msgspec
import pytest
from group_classes import call, run

from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.faults import consumers, notifier
from holdfast.faults import notifier as notifier_module
from holdfast.faults.consumers import Consumer
from holdfast.faults.events import EventType, Location, StructuredEvent
from holdfast.faults.filters import ConstraintExp, ConstraintInfo
from holdfast.faults.notifier import Notifier
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Gap, Page
from holdfast.model.ids import GroupId
from holdfast.model.outcome import Outcome, Raised, Refused, Returned

CRASHES = (EventType("FT_CORBA", "ObjectCrashFault"),)


class Group:
    """A notifier, called as a group is, once a second unless told otherwise."""

    def __init__(self, **kwargs: Any) -> None:
        self.execution = Execution(Definition("faults", Notifier, lambda: Notifier(**kwargs)))
        self.time_s = 100
        self.number = 0

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        (outcome,) = self._run(method, *args, **kwargs)
        assert isinstance(outcome, Returned), outcome
        return outcome.value

    def fails(self, method: str, *args: Any) -> str:
        """Return the type of the exception."""
        (outcome,) = self._run(method, *args)
        assert isinstance(outcome, Raised), outcome
        return outcome.type_name.rpartition(".")[2]

    def _run(self, method: str, *args: Any, **kwargs: Any) -> list[Outcome | None]:
        self.number += 1
        made = call(self.number, method, *args, expiration_s=self.time_s + 60, **kwargs)
        return run(self.execution, made, time_s=self.time_s)

    def push(self, event: StructuredEvent, once: str = "") -> int:
        number: int = self.call("push_structured_fault", event, once)
        return number

    def page(self, *args: Any, **kwargs: Any) -> Page:
        return msgspec.convert(self.call("read", *args, **kwargs), Page)

    def read(self, after: int = 0, **kwargs: Any) -> list[int]:
        return [each.number for each in self.page(after, **kwargs).events]

    def heard(self, connection: int, after: int | None = None) -> list[int]:
        page = msgspec.convert(self.call("read_for", connection, after), Page)
        return [each.number for each in page.events]

    def fail_over(self) -> None:
        """Let another member continue from the state."""
        self.execution = Execution.load(self.execution.definition, self.execution.save())


@pytest.fixture
def group() -> Group:
    return Group()


def host_crash(host: str) -> StructuredEvent:
    return FaultReport(
        FaultKind.HOST_CRASH, "main", Location.parse(host), details={"HostId": host.rpartition("/")[2]}
    ).to_event()


def crash(location: str, type_id: str | None = None, group: int | None = None) -> StructuredEvent:
    number = None if group is None else GroupId(group)
    return FaultReport(FaultKind.OBJECT_CRASH, "main", Location.parse(location), type_id, number).to_event()


@pytest.mark.covers("FTC-260", "FTC-261", "FTC-259")
def test_what_is_pushed_is_told_in_order_under_numbers(group: Group) -> None:
    """Anybody may push one event or several. Numbers have no gaps and follow the order."""
    assert group.push(crash("h1")) == 1
    assert group.call("push_sequence_fault", [crash("h2"), crash("h3")]) == [2, 3]
    page = group.page(0)
    assert [each.event for each in page.events] == [crash("h1"), crash("h2"), crash("h3")]
    assert ([each.number for each in page.events], page.reached, page.newest) == ([1, 2, 3], 3, 3)
    assert group.page().reached == 3  # without a number: the current position


@pytest.mark.covers("FTC-240")
def test_a_report_that_several_make_is_told_once(group: Group) -> None:
    """Pushing again under the same key is the same report, also after failover and in a batch."""
    assert group.push(host_crash("h1"), "h1/4/death") == 1
    group.fail_over()
    assert group.push(host_crash("h1"), "h1/4/death") == 1
    assert group.call("push_sequence_fault", [crash("h9"), host_crash("h1")], ["", "h1/4/death"]) == [2, 1]
    assert group.read() == [1, 2]


def test_a_batch_that_is_not_right_is_not_told_at_all(group: Group) -> None:
    assert group.fails("push_sequence_fault", [crash("h1"), crash("h2")], ["a"]) == "InvalidEvent"
    assert group.fails("push_sequence_fault", [crash("h1"), crash("h2")], ["a", "x" * 257]) == "InvalidEvent"
    (outcome,) = run(group.execution, call(99, "push_structured_fault", [[[["", ""]]], [["", float("nan")]]]))
    assert isinstance(outcome, Refused)
    assert group.read() == []


@pytest.mark.covers("FTC-262", "FTC-276")
def test_filters_are_made_in_the_language_of_the_source_only(group: Group) -> None:
    made = group.call("create_subscription_filter", "EXTENDED_TCL")
    assert group.call("constraint_grammar", made) == "EXTENDED_TCL"
    assert group.fails("create_subscription_filter", "SQL92") == "InvalidGrammar"


@pytest.mark.covers("FTC-270", "FTC-272", "FTC-273", "FTC-274")
def test_a_filter_has_the_methods_of_the_source(group: Group) -> None:
    """Filters are identified by number. After failover ids continue, and destroyed filters stay destroyed."""
    made = group.call("create_subscription_filter", "EXTENDED_TCL")
    assert group.call("match_structured", made, crash("h1")) is False
    added = msgspec.convert(
        group.call("add_constraints", made, [ConstraintExp(CRASHES, "$Location[0].id == 'h1'")]),
        list[ConstraintInfo],
    )
    assert group.call("match_structured", made, crash("h1")) is True
    assert group.fails("add_constraints", made, [ConstraintExp((), "$a ==")]) == "InvalidConstraint"
    group.fail_over()
    other = ConstraintInfo(ConstraintExp(CRASHES, "$Location[0].id == 'h2'"), added[0].constraint_id)
    group.call("modify_constraints", made, [], [other])
    assert group.call("match_structured", made, crash("h1")) is False
    found = msgspec.convert(group.call("get_all_constraints", made), list[ConstraintInfo])
    assert found == [other] == msgspec.convert(group.call("get_constraints", made, [1]), list[ConstraintInfo])
    assert group.fails("get_constraints", made, [2]) == "ConstraintNotFound"
    group.call("remove_all_constraints", made)
    assert group.call("get_all_constraints", made) == []
    group.call("destroy_filter", made)
    assert group.fails("match_structured", made, crash("h1")) == "FilterDestroyed"
    assert group.call("create_subscription_filter", "EXTENDED_TCL") == made + 1


@pytest.mark.covers("FTC-258", "FTC-263", "FTC-264", "FTC-265", "FTC-266", "FTC-267", "FTC-268")
def test_consumers_hear_what_their_filters_pass(group: Group) -> None:
    """Consumers get events from when they connected, in either form, however they were pushed; without a
    filter they get all."""
    group.push(crash("h1"))
    made = group.call("create_subscription_filter", "EXTENDED_TCL")
    group.call("add_constraints", made, [ConstraintExp(CRASHES, "$Location[0].id == 'h2'")])
    one = group.call("connect_structured_fault_consumer", "one", made)
    all_of_it = group.call("connect_sequence_fault_consumer", "all")
    assert (one, all_of_it) == (1, 2)
    group.push(crash("h2"))
    group.call("push_sequence_fault", [crash("h3"), crash("h2")])
    assert group.heard(one) == [2, 4]
    assert group.heard(all_of_it) == [2, 3, 4]
    group.call("acknowledge", one, 2)
    group.fail_over()
    assert group.heard(one) == [4]
    assert group.heard(one, 0) == [2, 4]  # from wherever it says
    group.call("disconnect_consumer", one)
    assert group.fails("disconnect_consumer", one) == "Disconnected"
    assert group.fails("read_for", one) == "Disconnected"
    assert group.call("connect_structured_fault_consumer", "again") == 3


def test_a_consumer_that_was_away_too_long_is_told_what_it_missed() -> None:
    """The ring is bounded. The missing numbers are named, and the consumer's loss is counted."""
    group = Group(events_kept=3)
    connection = group.call("connect_structured_fault_consumer", "slow")
    for number in range(5):
        group.push(crash(f"h{number}"))
    page = group.page(0)
    assert page.gap == Gap(1, 2)
    assert [each.number for each in page.events] == [3, 4, 5]
    assert group.page(2).gap is None
    assert group.page(0, where="$Location[0].id == 'nowhere'").reached == 5
    group.call("acknowledge", connection, 5, 2)
    (known,) = msgspec.convert(group.call("consumers"), tuple[Consumer, ...])
    assert (known.reached, known.missed) == (5, 2)
    assert group.fails("read", 6) == "NoSuchNumber"
    assert group.fails("acknowledge", connection, 6) == "InvalidEvent"


def test_old_events_go(group: Group) -> None:
    group.push(crash("h1"))
    group.time_s += notifier_module.KEPT_NS // 10**9 + 1
    group.push(crash("h2"))
    page = group.page(0)
    assert ([each.number for each in page.events], page.gap) == ([2], Gap(1, 1))


def test_large_events_are_bounded_by_their_bytes() -> None:
    kept = notifier_module.Ring(bytes_max=2_000)
    for number in range(20):
        kept.add(crash(f"h{number}" + "x" * 200), number)
    assert 1 < len(kept.all()) < 10
    assert kept.newest == 20


def test_pages_are_bounded_by_what_is_looked_at(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that passes nothing gets a page without events that says where to read on."""
    monkeypatch.setattr(notifier, "PAGE_LOOKED_AT_MAX", 2)
    group.call("push_sequence_fault", [crash(f"h{number}") for number in range(5)])
    assert group.page(0, where="$Location[0].id == 'h4'").reached == 2
    assert group.page(4, where="$Location[0].id == 'h4'").events[0].number == 5
    assert [each.number for each in group.page(0, limit=1).events] == [1]


def test_a_long_filter_looks_at_fewer_events_at_a_time(group: Group) -> None:
    """The cost of one read is bounded, because other groups of the host wait for it. The next pages hold the
    rest."""
    group.call("push_sequence_fault", [crash(f"host{each}") for each in range(100)])
    long = " or ".join(f"$Location[0].id == 'rack{each}'" for each in range(500)) + " or TRUE"
    filter = group.call("create_subscription_filter", "EXTENDED_TCL")
    group.call("add_constraints", filter, [ConstraintExp((), long)])
    connection = group.call("connect_structured_fault_consumer", "me", filter)
    for ask in (
        lambda after: group.page(after, where=long),
        lambda after: msgspec.convert(group.call("read_for", connection, after), Page),
    ):
        reached, pages = 0, 0
        while reached < 100:
            page = ask(reached)
            assert 0 < (page.reached - reached) * len(long) <= notifier.PAGE_LETTERS_MAX
            assert [each.number for each in page.events] == [*range(reached + 1, page.reached + 1)]
            reached, pages = page.reached, pages + 1
        assert pages > 1


def test_the_silent_make_room(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are too many consumers, one that was silent for a day is forgotten, and of filters an unused
    one. If all are in use, there is no room."""
    monkeypatch.setattr(consumers, "CONSUMERS_MAX", 2)
    monkeypatch.setattr(consumers, "FILTERS_MAX", 2)
    used = group.call("create_subscription_filter", "EXTENDED_TCL")
    group.call("create_subscription_filter", "EXTENDED_TCL")
    group.call("create_subscription_filter", "EXTENDED_TCL")
    assert group.fails("constraint_grammar", 1) == "FilterDestroyed"
    assert used == 1
    first = group.call("connect_structured_fault_consumer", "a", 2)
    group.call("connect_structured_fault_consumer", "b", 3)
    assert group.fails("create_subscription_filter", "EXTENDED_TCL") == "TooManyConsumers"
    assert group.fails("connect_structured_fault_consumer", "c") == "TooManyConsumers"
    group.time_s += 25 * 3600
    group.call("acknowledge", first, 0)
    group.call("connect_structured_fault_consumer", "c")
    assert [
        each["push_consumer"] if isinstance(each, dict) else each[1] for each in group.call("consumers")
    ] == [
        "a",
        "c",
    ]


@pytest.mark.covers("FTC-280", "FTC-281", "FTC-282", "FTC-279", "FTC-278", "FTC-277")
def test_a_hosts_death_is_one_report_to_everybody(group: Group) -> None:
    """A consumer gets one report whether it hears of hosts, filters as in the source's examples, or asked for
    one member."""
    group.push(host_crash("myhost"))
    group.push(crash("myhost"))
    group.call("push_sequence_fault", [crash("myhost/proc", "IDL:A:1.0", each) for each in range(1, 51)])
    example1 = (
        "$event_type.domain_name == 'FT_CORBA' and $event_type.type_name == 'ObjectCrashFault' "
        "and $FTDomainId == 'main' and $Location[0].id == 'myhost'"
    )
    example2 = (
        f"{example1} and (not (exists $Location[1]) or $Location[1].id == 'proc') "
        "and (not (exists $TypeId) or $TypeId == 'IDL:A:1.0') "
        "and (not (exists $ObjectGroupId) or $ObjectGroupId == '7')"
    )
    assert group.read() == [1]
    assert group.read(where=example1) == [2]
    assert group.read(where=example2) == [2]
    assert group.read(where="$ObjectGroupId == 7") == [9]
    assert group.read(parts=True) == list(range(1, 53))
    assert group.read(where="$ObjectGroupId > 48", parts=True) == [51, 52]
