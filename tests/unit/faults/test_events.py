"""Tests structured events: the fields that the source defines, their bounds, and their encoding."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.faults import events as events_module
from holdfast.faults.events import (
    ELEMENTS_MAX,
    INTEGER_MAX,
    INTEGER_MIN,
    LOCATION_PARTS_MAX,
    NAME_MAX,
    PROPERTIES_MAX,
    TEXT_MAX,
    EventHeader,
    EventType,
    FixedEventHeader,
    InvalidEvent,
    Location,
    NameComponent,
    Property,
    StructuredEvent,
    UnsupportedFilterableData,
)
from holdfast.faults.reports import DETAILS, FaultKind, FaultReport, Scope
from holdfast.model.ids import GroupId

HOST = Location.parse("myhost.acme.com", "hostname")
HEADER = EventHeader(FixedEventHeader(EventType("FT_CORBA", "ObjectCrashFault")))
GROUP = GroupId(1)


def crash(type_id: str | None = None, group: GroupId | None = None) -> StructuredEvent:
    return FaultReport(FaultKind.OBJECT_CRASH, "acme.com", HOST, type_id, group).to_event()


@pytest.mark.covers("FTC-250", "FTC-251", "FTC-255")
def test_a_location_that_crashed() -> None:
    """Domain, type, FTDomainId and Location are always there, in this order, and nothing else is set."""
    event = crash()
    fixed = event.header.fixed_header
    assert (fixed.event_type.domain_name, fixed.event_type.type_name) == ("FT_CORBA", "ObjectCrashFault")
    assert event.filterable_data == (Property("FTDomainId", "acme.com"), Property("Location", HOST))
    assert (fixed.event_name, event.header.variable_header, event.remainder_of_body) == ("", (), None)


@pytest.mark.covers("FTC-252", "FTC-253", "FTC-254")
def test_what_is_named_says_whom_it_is_about() -> None:
    """TypeId comes third unless all objects at the location failed, ObjectGroupId fourth only if one member
    did."""
    assert [each.name for each in crash("IDL:Bank:1.0").filterable_data][2:] == ["TypeId"]
    member = crash("IDL:Bank:1.0", GROUP).filterable_data
    assert member[2:] == (Property("TypeId", "IDL:Bank:1.0"), Property("ObjectGroupId", 1))
    scopes = [FaultReport.of(each).scope for each in (crash(), crash("T"), crash("T", GROUP))]
    assert scopes == [Scope.LOCATION, Scope.TYPE, Scope.MEMBER]
    with pytest.raises(InvalidEvent):
        crash(None, GROUP)


@pytest.mark.covers("FTC-256")
def test_parts_left_out_mean_all_below() -> None:
    """A report of a host covers its processes; one of a process covers neither its host nor another
    process."""
    host, process = Location.parse("hostC"), Location.parse("hostC/procB/objA")
    assert host.covers(process)
    assert host.covers(host)
    assert not process.covers(host)
    assert not host.covers(Location.parse("hostD/procB"))
    assert str(process) == "hostC/procB/objA"
    assert [part.kind for part in Location.parse("hostC/procB", "hostname").parts] == ["hostname", ""]


@pytest.mark.covers("FTC-257")
@pytest.mark.parametrize("kind", FaultKind)
def test_every_kind_says_all_it_can_and_is_read_back(kind: FaultKind) -> None:
    """Reports survive encoding and decoding. Only the source's own kind is in the source's domain."""
    sample: dict[type, str | int | bool] = {str: "x", int: 7, bool: True}
    details = {name: sample[of] for name, of in DETAILS[kind].items()}
    report = FaultReport(kind, "acme.com", HOST, "T", GROUP, details, "as a person reads it", "name")
    (event,) = events_module.decode_events(events_module.encode_events([report.to_event()]))
    assert FaultReport.of(event) == report
    domain = event.header.fixed_header.event_type.domain_name
    assert (domain == "FT_CORBA") is (kind is FaultKind.OBJECT_CRASH)


def test_details_are_those_of_the_kind() -> None:
    """A detail of another kind or another type is refused, and so is an event that carries no report."""
    with pytest.raises(InvalidEvent, match="it may have: HostId, WaitedNs"):
        FaultReport(FaultKind.HANG, "d", HOST, details={"Epoch": 1})
    with pytest.raises(InvalidEvent):
        FaultReport(FaultKind.HANG, "d", HOST, details={"WaitedNs": True})
    for data in [(), (Property("FTDomainId", "d"),), (Property("FTDomainId", 1), Property("Location", HOST))]:
        with pytest.raises(InvalidEvent):
            FaultReport.of(StructuredEvent(HEADER, data))
    with pytest.raises(InvalidEvent, match="FT_CORBA/Other"):
        FaultReport.of(StructuredEvent(EventHeader(FixedEventHeader(EventType("FT_CORBA", "Other")))))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Property("x" * (NAME_MAX + 1), 1),
        lambda: Property("x", "y" * (TEXT_MAX + 1)),
        lambda: Property("x", INTEGER_MAX + 1),
        lambda: Property("x", INTEGER_MIN - 1),
        lambda: Property("x", float("nan")),
        lambda: Property("x", float("inf")),
        lambda: Property("x", (1,) * (ELEMENTS_MAX + 1)),
        lambda: Property("x", ((1,),)),  # type: ignore[arg-type]  # what a careless caller may hand over
        lambda: Property("x", b"bytes"),  # type: ignore[arg-type]  # as above
        lambda: Property("x", "\ud800"),
        lambda: NameComponent(""),
        lambda: Location(()),
        lambda: Location((NameComponent("x"),) * (LOCATION_PARTS_MAX + 1)),
        lambda: EventType("x" * (NAME_MAX + 1), ""),
        lambda: StructuredEvent(HEADER, tuple(Property(f"x{n}", n) for n in range(PROPERTIES_MAX + 1))),
        lambda: StructuredEvent(HEADER, (Property("x", 1), Property("x", 2))),
        lambda: StructuredEvent(HEADER, (), "y" * (TEXT_MAX + 1)),
        lambda: events_module.encode_events([StructuredEvent(HEADER)] * (events_module.EVENTS_MAX + 1)),
        lambda: events_module.decode_events(b"\0" * (events_module.BATCH_BYTES_MAX + 1)),
        lambda: events_module.decode_events(b"\x92\x02\x90"),  # version 2
    ],
)
def test_nothing_beyond_the_bounds_is_an_event(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidEvent):
        make()


@pytest.mark.covers("FTC-275")
def test_what_no_filter_can_look_at_is_said_to_be_so() -> None:
    """A property of a type that no constraint knows never reaches a filter."""
    with pytest.raises(UnsupportedFilterableData):
        Property("x", {"a": 1})  # type: ignore[arg-type]  # what a careless caller may hand over


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SIMPLE = (
    st.booleans()
    | st.integers(INTEGER_MIN, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | NAMES
)
LOCATIONS = st.lists(st.builds(NameComponent, NAMES.filter(bool), NAMES), min_size=1, max_size=4).map(
    lambda parts: Location(tuple(parts))
)
VALUES = SIMPLE | st.lists(SIMPLE, max_size=4).map(tuple) | LOCATIONS
PROPERTIES = st.dictionaries(NAMES, VALUES, max_size=4).map(
    lambda values: tuple(Property(name, value) for name, value in values.items())
)
EVENTS = st.builds(
    StructuredEvent,
    st.builds(
        EventHeader, st.builds(FixedEventHeader, st.builds(EventType, NAMES, NAMES), NAMES), PROPERTIES
    ),
    PROPERTIES,
    st.none() | VALUES,
)


@given(st.lists(EVENTS, max_size=4))
@settings(max_examples=50)
def test_any_batch_comes_back_as_it_was(events: list[StructuredEvent]) -> None:
    """The types survive: 1, 1.0 and true are different."""
    found = events_module.decode_events(events_module.encode_events(events))
    assert found == tuple(events)
    assert repr(found) == repr(tuple(events))


@given(st.binary(max_size=200), st.lists(EVENTS, max_size=2), st.integers(0, 10_000), st.integers(0, 255))
@settings(max_examples=100)
def test_any_bytes_are_events_or_refused(
    noise: bytes, events: list[StructuredEvent], at: int, byte: int
) -> None:
    """Noise, changed bytes and truncated batches end in events or in InvalidEvent."""
    whole = events_module.encode_events(events)
    at %= len(whole)
    for data in (noise, whole[:at], whole[:at] + bytes([byte]) + whole[at + 1 :]):
        with suppress(InvalidEvent):
            assert all(isinstance(each, StructuredEvent) for each in events_module.decode_events(data))
