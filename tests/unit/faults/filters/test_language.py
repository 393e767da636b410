"""Tests the constraint language: how tightly operators bind, what each gives, and what errors say."""

import pytest

from holdfast.faults.events import (
    EventHeader,
    EventType,
    FixedEventHeader,
    Location,
    Property,
    StructuredEvent,
)
from holdfast.faults.filters import InvalidConstraint, Truth, evaluate, parse
from holdfast.faults.filters.parser import DEPTH_MAX
from holdfast.faults.filters.tokens import CONSTRAINT_MAX, STEPS_MAX, TOKENS_MAX
from holdfast.faults.filters.tree import written

EVENT = StructuredEvent(
    EventHeader(
        FixedEventHeader(EventType("FT_CORBA", "ObjectCrashFault"), "first"),
        (Property("Priority", 4), Property("both", "of the header"), Property("type_name", "hidden")),
    ),
    (
        Property("FTDomainId", "ftdom0"),
        Property("Location", Location.parse("hostC/procB", "hostname", "processname")),
        Property("ObjectGroupId", 2**64 - 1),
        Property("both", "of the data"),
        Property("hosts", ("a", "b", 3, True)),
        Property("load", 0.5),
        Property("yes", True),
        Property("and", "a keyword"),
        Property("TypeId", ""),
    ),
    "what people read",
)


def truth(constraint: str) -> Truth:
    return evaluate(parse(constraint), EVENT).truth


@pytest.mark.parametrize(
    "constraint",
    [
        # components
        "$.header.fixed_header.event_type.domain_name == 'FT_CORBA'",
        "$event_type.type_name == 'ObjectCrashFault'",
        "$domain_name == 'FT_CORBA' and $type_name == 'ObjectCrashFault' and $event_name == 'first'",
        "$.0.0.0.1 == 'ObjectCrashFault'",
        "$.filterable_data[0].name == 'FTDomainId' and $.filterable_data[0].value == 'ftdom0'",
        "$.filterable_data(FTDomainId) == 'ftdom0'",
        "$.header.variable_header(Priority) == 4 and $Priority == 4",
        "$both == 'of the header'",
        "$.remainder_of_body == 'what people read'",
        r"$\and == 'a keyword' and $.filterable_data(and) == 'a keyword'",
        "$Location[1].id == 'procB' and $Location[1].kind == 'processname' and $Location[1].0 == 'procB'",
        "$Location._length == 2 and $.filterable_data._length == 9 and $hosts._length == 4",
        "$Location._type_id == 'Location' and $load._type_id == 'double' and $hosts._type_id == 'sequence'",
        "$._repos_id == 'IDL:omg.org/CosNotification/StructuredEvent:1.0'",
        "$ Location [ 0 ] . id=='hostC'",
        "exist $ and exist $.header and exist $TypeId and not exist $.header.nothing",
        "not exist $Location[2] and not exist $Location.parts and not exist $FTDomainId._length",
        "not exist $FTDomainId[0] and not exist $.9 and not exist $Location(id)",
        "not exist $load._repos_id",
        "not default $Location and not default $Nothing",
        # comparisons
        "1 < 2 and 2 <= 2 and 3 > 2 and 3 >= 3 and 1 != 2 and 1 == 1.0",
        "'a' < 'b' and 'B' < 'a' and 'it\\'s' != 'its' and '\\\\' == '\\\\'",
        "FALSE < TRUE and TRUE == $yes",
        "$ObjectGroupId == 18446744073709551615 and $ObjectGroupId != 18446744073709551614",
        "'a' == ‘a’ and '‘' != '’'",
        r""" 'a"' == "a\"" and "it's" == 'it\'s' """,
        # arithmetic
        "1 + 2 * 3 == 7 and (1 + 2) * 3 == 9 and 10 - 3 - 2 == 5 and 12 / 3 / 2 == 2",
        "1 / 2 == 0.5 and 2 - -1 == 3 and +1 == 1 and .5 + 1. == 15e-1 and 2 * $load == 1",
        "$ObjectGroupId / 1 == 18446744073709551615 and ($ObjectGroupId - 1) * 2 / 2 < $ObjectGroupId",
        # texts and sequences
        "'host' ~ $Location[0].id and not ('Host' ~ $Location[0].id) and '' ~ ''",
        "'a' in $hosts and not ('c' in $hosts) and 3 in $hosts and 3.0 in $hosts and TRUE in $hosts",
        "not (1 in $hosts) and not ('x' in $Location)",
        "'a' ~ 'abc' in $hosts",
        "'a' in $hosts == TRUE",
        # and, or, not
        "TRUE or FALSE and FALSE",
        "not FALSE and TRUE",
        "not TRUE or TRUE",
        "not (TRUE and FALSE)",
        "not $yes == FALSE",
        "",
        " \t\n",
    ],
)
def test_true(constraint: str) -> None:
    assert truth(constraint) is Truth.TRUE


@pytest.mark.parametrize(
    ("constraint", "at", "why"),
    [
        ("$Nothing == 1", 0, "the event has no $Nothing"),
        ("1 == 1 and $Location == 'x'", 11, "$Location is made of parts; name the one that is meant"),
        ("not $FTDomainId", 4, "$FTDomainId is 'ftdom0', no boolean"),
        ("$yes == 1", 5, "True never compares with 1"),
        ("$FTDomainId + 1 == 2", 0, "$FTDomainId is 'ftdom0', no number"),
        ("$yes * 2 == 2", 0, "$yes is True, no number"),
        ("'1' ~ $Priority", 6, "$Priority is 4, no text"),
        ("'a' in $FTDomainId", 4, "the event has no sequence $FTDomainId"),
        ("$Priority / (2 - 2) == 1", 0, "4 / 0"),
        ("1e308 * 10 > 1", 0, "1e+308 * 10 is too large"),
        (f"{'9' * 32} * {'9' * 32} > 1", 0, f"{'9' * 32} * {'9' * 32} is too large"),
    ],
)
def test_undefined(constraint: str, at: int, why: str) -> None:
    """The result is neither true nor false, ``not`` does not change that, and it says where and why."""
    verdict = evaluate(parse(constraint), EVENT)
    assert (verdict.truth, verdict.at, verdict.why) == (Truth.UNDEFINED, at, why)
    assert truth(f"not ({constraint})") is Truth.UNDEFINED


@pytest.mark.parametrize(
    ("constraint", "at", "problem"),
    [
        ("$TypeId = 'x'", 8, "found '='; write == for equality"),
        ("$a == 1 && $b == 2", 8, "found '&'; write and"),
        ("TypeId == 'x'", 0, "found TypeId; write $TypeId for a component, or 'TypeId' for a text"),
        ("$a == true", 6, "found true; write TRUE"),
        ("$a == 1 AND $b == 2", 8, "found AND; write and"),
        ("$a == `x`", 6, "found '`'; texts stand in single quotes: 'hostC'"),
        ("$a == 'x", 6, "a text begins here and does not end; close it with '"),
        ("$a == ‘x'", 6, "a text begins here and does not end; close it with ’"),
        (r"$a == 'C:\x'", 9, r"in a text, a backslash is written \\ and a quote \'"),
        ("$a == 1 == 2", 8, "found ==; compare two at a time, and join them by and"),
        (
            "not $TypeId == 'x'",
            12,
            "a boolean never compares with a text; not binds tighter: write not (...) around it",
        ),
        ("$a == 1 and 2", 12, "expected a boolean, found a number: and joins booleans"),
        (
            "not 'x'",
            4,
            "expected a boolean, found a text: not binds tighter than comparisons; write not (...) ",
        ),
        ("1 + 'x' == 2", 4, "expected a number, found a text: only numbers can be reckoned with"),
        ("1 ~ 'x'", 0, "expected a text, found a number: ~ looks for a text within a text"),
        ("1 + 1", 0, "expected a boolean, found a number: a constraint is a boolean, such as a comparison"),
        ("($a == 1", 8, "expected ')' for the '(' at letter 1, found the end"),
        ("$a 'x\ny'", 3, "expected and, or, or the end, found 'x y'"),
        ("$a == 1)", 7, "expected and, or, or the end, found )"),
        ("$a ==", 5, "expected a component, a number, a text or a parenthesis, found the end"),
        ("$a == and", 6, "expected a component, a number, a text or a parenthesis, found and"),
        ("-$a == 1", 0, "a sign stands before a number only; write 0 - ..."),
        ("not not TRUE", 4, "expected a component, a number, a text or a parenthesis, found not"),
        ("exist 'x'", 6, "expected a component after exist, such as $ObjectGroupId, found 'x'"),
        ("1 in 'x'", 5, "expected a component after in, such as $ObjectGroupId, found 'x'"),
        ("$Location[x].id == 'a'", 10, "expected an element's number, such as $Location[0]"),
        ("$Location[0.id == 'a'", 11, "expected ']'"),
        ("$a._lenght == 1", 3, "found _lenght; write _length, _type_id or _repos_id"),
        ("$a._d == 1", 3, "no event holds a union, so nothing has cases to ask for"),
        ("$a.(1) == 1", 3, "no event holds a union, so nothing has cases to ask for"),
        ("$a. == 1", 4, "expected a member's name, its place, or _length, _type_id, _repos_id"),
        ("$a._length.x == 1", 10, "found '.'; a component begins with $, as in $.header"),
        ("$curtime > 1", 1, "$curtime is not offered: every replica of a notifier must decide alike"),
        ("$a == 1e999", 6, "a number beyond all that can be compared"),
        (f"$a == {'1' * 33}", 6, "a number of more than 32 digits"),
        ("$a == 1 # all", 8, "found '#'; no constraint holds such outside a text"),
        (
            f"$a{'.b' * (STEPS_MAX + 1)} == 1",
            2 + 2 * (STEPS_MAX + 1),
            f"a component of more than {STEPS_MAX} steps",
        ),
        (
            "(" * (DEPTH_MAX + 1) + "TRUE" + ")" * (DEPTH_MAX + 1),
            DEPTH_MAX,
            f"more than {DEPTH_MAX} parentheses",
        ),
        ("1" + "+1" * TOKENS_MAX + "==1", TOKENS_MAX, f"more than {TOKENS_MAX} words"),
        ("'" + "x" * CONSTRAINT_MAX, CONSTRAINT_MAX, f"longer than {CONSTRAINT_MAX} letters"),
    ],
)
def test_mistakes_are_pointed_at(constraint: str, at: int, problem: str) -> None:
    """Each error says in one line where the mistake is and what would be right, and can show the place to
    people."""
    with pytest.raises(InvalidConstraint) as caught:
        parse(constraint)
    error = caught.value
    assert (error.at, error.problem[: len(problem)]) == (at, problem)
    assert str(error) == f"constraint, letter {at + 1}: {error.problem}"
    line, excerpt, caret = error.shown().split("\n")
    assert line == str(error)
    assert len(excerpt) < 100
    assert excerpt[caret.index("^") :][:1] == constraint[at : at + 1].replace("\n", " ")


def test_the_place_is_shown_within_a_long_constraint() -> None:
    wrong = "$a == 1 and\n" * 20 + "$b = 2 and " + "$c == 3 and " * 20
    with pytest.raises(InvalidConstraint) as caught:
        parse(wrong)
    _, excerpt, caret = caught.value.shown().split("\n")
    assert excerpt == "  ... == 1 and $a == 1 and $a == 1 and $a == 1 and $b = 2 and $c == 3 and $c = ..."
    assert excerpt[caret.index("^")] == "="


@pytest.mark.parametrize(
    ("constraint", "as_written"),
    [
        ("((($a))) == ((1))", "$a == 1"),
        ("(($a == 1) and $b == 2) and ($c == 3)", "($a == 1 and $b == 2) and $c == 3"),
        ("$a == 1 or ($b == 2 and $c == 3)", "$a == 1 or $b == 2 and $c == 3"),
        ("1 - (2 - 3) == (1 * 2) / -3", "1 - (2 - 3) == (1 * 2) / -3"),
        ("not ($a == 1)", "not ($a == 1)"),
        ("(not $a) == TRUE", "not $a == TRUE"),
        ("not (not $a)", "not (not $a)"),
        ("exists $a [ 0 ] . b ( c ) . 3 . _length", "exist $a[0].b(c).3._length"),
        ("('a' ~ $b) in $c == FALSE", "'a' ~ $b in $c == FALSE"),
        (r"‘it\'s’ == $\or", r"'it\'s' == $\or"),
    ],
)
def test_only_needed_parentheses_are_written(constraint: str, as_written: str) -> None:
    assert written(parse(constraint)) == as_written


def test_long_chains_and_deep_parentheses_are_read_and_evaluated() -> None:
    """They work up to the bounds, without running out of Python's stack."""
    chain = "TRUE" + " and TRUE" * (TOKENS_MAX // 2 - 1)
    total = "1" + " + 1" * (TOKENS_MAX // 2 - 2) + " > 0"
    nested = "not (TRUE and FALSE == (" * (DEPTH_MAX // 2) + "FALSE" + "))" * (DEPTH_MAX // 2)
    beside = "(TRUE)" + " and (TRUE)" * 2 * DEPTH_MAX
    for constraint in (chain, total, nested, beside):
        tree = parse(constraint)
        assert evaluate(tree, EVENT).truth in (Truth.TRUE, Truth.FALSE)
        assert parse(written(tree)) == tree
