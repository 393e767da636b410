"""Filters of the source (FTC U, 27.4.6.3, 27.4.7): its examples as printed, and the filter object."""

import pytest

from holdfast.faults.events import (
    EventHeader,
    EventType,
    FixedEventHeader,
    Location,
    Property,
    StructuredEvent,
)
from holdfast.faults.filters import (
    EXTENDED_TCL,
    ConstraintExp,
    ConstraintId,
    ConstraintInfo,
    ConstraintNotFound,
    Filter,
    FilterDestroyed,
    InvalidConstraint,
    InvalidGrammar,
    create_filter,
    matches,
    parse,
)
from holdfast.faults.filters.filter import CONSTRAINTS_MAX, LETTERS_MAX
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId

# Curved quotes and line breaks as in the source.
ALL_ON_HOST_C = """$event_type.domain_name == ‘FT_CORBA’ and $event_type.type_name ==
‘ObjectCrashFault’ and $FTDomainId == ‘ftdom0’ and $Location[0].id == ‘hostC’"""
ONE_MEMBER = """$event_type.domain_name == ‘FT_CORBA’ and $event_type.type_name ==
‘ObjectCrashFault’ and $FTDomainId == ‘ftdom0’ and (not exists $ObjectGroupId or
$ObjectGroupId == ‘group1’) and (not exists $TypeId or $TypeId == ‘type2’) and
$Location[0].id == ‘hostC’ and (not exists $Location[1] or $Location[1].id ==
‘procB’)"""
USE_CASE = """$FTDomainId == ‘acme.com’

and $ObjectGroupId == 1
and $Location[0].id ==‘myhost.acme.com’"""


def event(
    at: str, type_id: str | None = None, group: str | int | None = None, domain: str = "ftdom0"
) -> StructuredEvent:
    """A crash; the source's second example has a text for a group, which only a bare event can hold."""
    whom = [
        ("FTDomainId", domain),
        ("Location", Location.parse(at)),
        ("TypeId", type_id),
        ("ObjectGroupId", group),
    ]
    header = EventHeader(FixedEventHeader(EventType("FT_CORBA", "ObjectCrashFault")))
    return StructuredEvent(header, tuple(Property(name, value) for name, value in whom if value is not None))


def passes(constraint: str, event: StructuredEvent) -> bool:
    return matches(parse(constraint), event)


def one(expression: str, *types: EventType) -> ConstraintExp:
    return ConstraintExp(types, expression)


@pytest.fixture
def filter_() -> Filter:
    return create_filter(EXTENDED_TCL)


@pytest.mark.covers("FTC-277", "FTC-279", "FTC-280")
def test_the_first_example_selects_all_crashes_of_a_host() -> None:
    """Every ObjectCrashFault of the domain on the host, whatever of it failed; nothing else."""
    for wanted in (event("hostC"), event("hostC/procB"), event("hostC/procB/objA", "type2", 7)):
        assert passes(ALL_ON_HOST_C, wanted)
    for other in (
        event("hostD"),
        event("hostC", domain="ftdom1"),
        FaultReport(FaultKind.HANG, "ftdom0", Location.parse("hostC")).to_event(),
    ):
        assert not passes(ALL_ON_HOST_C, other)


@pytest.mark.covers("FTC-277", "FTC-278", "FTC-281")
def test_the_second_example_selects_what_takes_a_member_away() -> None:
    """The member itself, its process or its host; not another member, type, process or host."""
    for wanted in (
        event("hostC/procB/objA", "type2", "group1"),
        event("hostC/procB", "type2"),
        event("hostC/procB"),
        event("hostC", "type2"),
        event("hostC"),
    ):
        assert passes(ONE_MEMBER, wanted)
    for other in (
        event("hostC/procB", "type2", "group2"),
        event("hostC/procB", "type3"),
        event("hostC/procD"),
        event("hostD"),
        event("hostC", domain="ftdom1"),
    ):
        assert not passes(ONE_MEMBER, other)
    assert passes("exist $Location[1]", event("a/b"))
    assert not passes("exist $Location[1]", event("a"))


@pytest.mark.covers("FTC-282")
def test_a_groups_number_compares_with_numbers_and_texts() -> None:
    """As numbers where both are, else as texts."""
    member = event("h", "t", 10)
    for constraint in (
        "$ObjectGroupId == 10",
        "$ObjectGroupId == 10.0",
        "$ObjectGroupId == '10'",
        "$ObjectGroupId > 9",
    ):
        assert passes(constraint, member)
    for constraint in ("$ObjectGroupId == '10.0'", "$ObjectGroupId == 'group1'", "$ObjectGroupId > '9'"):
        assert not passes(constraint, member)


@pytest.mark.covers("FTC-279")
@pytest.mark.parametrize(
    "constraint",
    [
        "$Nothing == 1",
        "not ($Nothing == 1)",
        "$Nothing != 1",
        "$Nothing == 1 or TRUE",
        "$Location[7].id == 'x' or TRUE",
        "$Location.id == 'h'",
        "not $Nothing",
        "1 in $Nothing",
        "'x' ~ $Nothing",
    ],
)
def test_what_is_not_there_never_matches(constraint: str) -> None:
    """Not even under not, or before something true."""
    assert not passes(constraint, event("h"))


@pytest.mark.covers("FTC-279")
def test_a_guard_keeps_what_is_not_there_from_being_looked_at() -> None:
    assert passes("not exist $TypeId or $TypeId == 'type2'", event("h"))
    assert passes("TRUE or $TypeId == 'type2'", event("h"))
    assert not passes("exist $TypeId and $TypeId == 'type2'", event("h"))
    assert passes("not (exist $TypeId and $TypeId == 'type2')", event("h"))


@pytest.mark.covers("FTC-270", "FTC-276")
def test_one_grammar_is_offered(filter_: Filter) -> None:
    assert filter_.constraint_grammar == "EXTENDED_TCL"
    for other in ("", "TCL", "extended_tcl", "EXTENDED_TCL ", "SQL"):
        with pytest.raises(InvalidGrammar, match="write EXTENDED_TCL"):
            create_filter(other)


@pytest.mark.covers("FTC-270", "FTC-272")
def test_constraints_are_added_all_or_none(filter_: Filter) -> None:
    """Ids are distinct, also after all were removed; one wrong constraint adds none, and is named."""
    first = filter_.add_constraints([one("$A == 1"), one("$A == 2")])
    wrong = one("$A == ")
    with pytest.raises(InvalidConstraint) as caught:
        filter_.add_constraints([one("$A == 3"), wrong])
    assert caught.value.constraint == wrong
    assert filter_.get_all_constraints() == first
    assert [each.constraint_expression for each in first] == [one("$A == 1"), one("$A == 2")]
    filter_.remove_all_constraints()
    assert filter_.get_all_constraints() == []
    later = filter_.add_constraints([one("$A == 1")])
    ids = [each.constraint_id for each in (*first, *later)]
    assert len(dict.fromkeys(ids)) == 3


@pytest.mark.covers("FTC-270", "FTC-273")
def test_constraints_are_modified_all_or_none(filter_: Filter) -> None:
    one_, two, three = filter_.add_constraints([one("1 == 1"), one("1 == 2"), one("1 == 3")])
    before = filter_.get_all_constraints()
    nowhere = ConstraintId(99)
    for delete, modify, error in [
        ([one_.constraint_id, nowhere], [], ConstraintNotFound),
        ([one_.constraint_id], [ConstraintInfo(one("2 == 2"), nowhere)], ConstraintNotFound),
        ([one_.constraint_id], [ConstraintInfo(one("2 == 2"), one_.constraint_id)], ConstraintNotFound),
        ([one_.constraint_id], [ConstraintInfo(one("2 =="), two.constraint_id)], InvalidConstraint),
    ]:
        with pytest.raises(error) as caught:
            filter_.modify_constraints(delete, modify)
        assert not isinstance(caught.value, ConstraintNotFound) or caught.value.id in (
            nowhere,
            one_.constraint_id,
        )
        assert filter_.get_all_constraints() == before
    changed = ConstraintInfo(one("2 == 2"), two.constraint_id)
    filter_.modify_constraints([one_.constraint_id], [changed])
    assert filter_.get_all_constraints() == [changed, three]


@pytest.mark.covers("FTC-270", "FTC-274")
def test_constraints_are_shown_by_id_and_gone_with_the_filter(filter_: Filter) -> None:
    first, second = filter_.add_constraints([one("TRUE"), one("FALSE")])
    assert filter_.get_constraints([second.constraint_id, first.constraint_id]) == [second, first]
    with pytest.raises(ConstraintNotFound):
        filter_.get_constraints([first.constraint_id, ConstraintId(99)])
    filter_.destroy()
    for use in (filter_.get_all_constraints, filter_.destroy, lambda: filter_.match_structured(event("h"))):
        with pytest.raises(FilterDestroyed):
            use()


@pytest.mark.covers("FTC-270", "FTC-275")
def test_any_one_constraint_is_enough(filter_: Filter) -> None:
    """Constraints are or-ed, so that a filter without any passes nothing; an empty expression is true."""
    assert not filter_.match_structured(event("h"))
    filter_.add_constraints([one("$Nothing == 1"), one("$Location[0].id == 'h'")])
    assert filter_.match_structured(event("h"))
    assert not filter_.match_structured(event("i"))
    filter_.add_constraints([one("")])
    assert filter_.match_structured(event("i"))


@pytest.mark.covers("FTC-275")
@pytest.mark.parametrize(
    ("domain", "type_", "does"),
    [
        ("FT_CORBA", "ObjectCrashFault", True),
        ("", "", True),
        ("*", "*", True),
        ("*", "%ALL", True),
        ("FT_*", "*Crash*", True),
        ("*FT_CORBA*", "Object*Fault", True),
        ("FT_CORBA", "ObjectCrash", False),
        ("HOLDFAST", "", False),
        ("FT_CORBA", "*crash*", False),
        ("FT_*FT_CORBA", "*", False),
        ("FT_*RBA*RBA", "*", False),
        ("FT_CORBA", "Object*Crash*Crash*", False),
    ],
)
def test_event_types_are_names_or_patterns(filter_: Filter, domain: str, type_: str, does: bool) -> None:
    """Both names must fit, of one type of the list; no list fits every type."""
    filter_.add_constraints([one("TRUE", EventType("X", "Y"), EventType(domain, type_))])
    assert filter_.match_structured(event("h")) is does


def test_the_use_case_of_the_replication_manager(filter_: Filter) -> None:
    """27.4.7.2, steps 2 to 6, as far as they are the filter's: it hears of its object while it wants to."""
    crashed = FaultReport(
        FaultKind.OBJECT_CRASH,
        "acme.com",
        Location.parse("myhost.acme.com", "hostname"),
        "object_type",
        GroupId(1),
    ).to_event()
    (info,) = filter_.add_constraints([one(USE_CASE, EventType("FT_CORBA", "ObjectCrashFault"))])
    assert filter_.match_structured(crashed)
    assert not filter_.match_structured(event("myhost.acme.com", "object_type", 2, domain="acme.com"))
    filter_.modify_constraints([info.constraint_id], [])
    assert not filter_.match_structured(crashed)


def test_a_filter_goes_on_from_its_state(filter_: Filter) -> None:
    """The same constraints under the same ids, and no id is given again."""
    first, second = filter_.add_constraints([one("1 == 1"), one("1 == 2")])
    filter_.modify_constraints([second.constraint_id], [])
    again = Filter.restored(filter_.state())
    assert again.get_all_constraints() == [first]
    assert (
        again.add_constraints([one("")])[0].constraint_id
        == filter_.add_constraints([one("")])[0].constraint_id
    )


def test_a_filter_is_bounded(filter_: Filter) -> None:
    filter_.add_constraints([one("TRUE")] * CONSTRAINTS_MAX)
    with pytest.raises(InvalidRequest, match=f"at most {CONSTRAINTS_MAX}"):
        filter_.add_constraints([one("TRUE")])
    filter_.remove_all_constraints()
    with pytest.raises(InvalidRequest, match=f"at most {LETTERS_MAX} letters"):
        filter_.add_constraints([one(" " * (LETTERS_MAX // 2)), one(" " * (LETTERS_MAX // 2 + 1))])
    assert filter_.get_all_constraints() == []
    with pytest.raises(InvalidRequest, match="types of events"):
        filter_.add_constraints([one("TRUE", *[EventType("x", "y")] * 65)])
