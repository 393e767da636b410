"""Tests the constraint language with random trees and texts: what is written is read back, and means what
Python says."""

import sys
from collections.abc import Callable
from math import isfinite
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.faults.events import (
    EventHeader,
    EventType,
    FixedEventHeader,
    Location,
    Property,
    StructuredEvent,
)
from holdfast.faults.filters import InvalidConstraint, Truth, evaluate, parse
from holdfast.faults.filters.errors import Element, Member, Named, Path, Place, Trait
from holdfast.faults.filters.tokens import CONSTRAINT_MAX, KEYWORDS
from holdfast.faults.filters.tree import (
    And,
    Comparison,
    Component,
    Default,
    Exist,
    Literal,
    Membership,
    Node,
    Not,
    Or,
    Product,
    Substring,
    Sum,
    written,
)

VALUES: dict[str, object] = {
    "one": 1,
    "large": 2**63,
    "half": 0.5,
    "text": "abc",
    "digits": "1",
    "empty": "",
    "yes": True,
    "no": False,
}
SEQUENCES: dict[str, tuple[bool | int | float | str, ...]] = {"mixed": (1, "abc", 0.5, True), "none": ()}
WHERE = Location.parse("hostC/procB")
HEADER = EventHeader(FixedEventHeader(EventType("d", "t")))
PLAIN = {**VALUES, **SEQUENCES, "Location": WHERE}
EVENT = StructuredEvent(HEADER, tuple(Property(name, value) for name, value in PLAIN.items()))  # type: ignore[arg-type]  # as object

# --- random trees, of the shapes that the parser makes

SIGNS = ["==", "!=", "<", "<=", ">", ">="]
KNOWN = st.sampled_from([*PLAIN, "nowhere"]).map(Path) | st.builds(
    Path, st.just("Location"), st.sampled_from([(Element(0), Member("id")), (Element(2),), (Trait.LENGTH,)])
)
NAMES = st.sampled_from(["a", "Zz", "x_1", "event_type", "E9", *KEYWORDS])
STEPS = st.builds(Member, NAMES) | st.builds(Named, NAMES) | st.builds(Place, st.integers(0, 99))
PATHS = st.builds(
    lambda variable, steps, trait: Path(variable, (*steps, *trait)),
    st.none() | NAMES,
    st.lists(STEPS | st.builds(Element, st.integers(0, 10**20)), max_size=4),
    st.lists(st.sampled_from(Trait), max_size=1),
)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
SMALL_NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -1.5, 1e300])
TEXTS = st.text(max_size=8)
SMALL_TEXTS = st.sampled_from(["", "1", "abc", "b", "hostC", "True", "'", "\\"])


def chains(
    of: type[Sum] | type[Product], signs: str, operands: st.SearchStrategy[Node]
) -> st.SearchStrategy[Node]:
    rest = st.lists(st.tuples(st.sampled_from(signs), operands), min_size=1, max_size=3).map(tuple)
    return st.builds(of, operands, rest)


def trees(
    paths: st.SearchStrategy[Path], number: st.SearchStrategy[float], text: st.SearchStrategy[str]
) -> st.SearchStrategy[Node]:
    components: st.SearchStrategy[Node] = st.builds(Component, paths)
    numbers: st.SearchStrategy[Node] = st.recursive(
        components | st.builds(Literal, number),
        lambda inner: chains(Sum, "+-", inner) | chains(Product, "*/", inner),
        max_leaves=6,
    )
    texts: st.SearchStrategy[Node] = components | st.builds(Literal, text)
    leaves: st.SearchStrategy[Node] = st.one_of(
        components,
        st.builds(Literal, st.booleans()),
        st.builds(Exist, paths),
        st.builds(Default, paths),
        st.builds(Comparison, numbers | texts, st.sampled_from(SIGNS), numbers | texts),
        st.builds(Substring, texts, texts),
        st.builds(Membership, numbers | texts, paths),
    )

    def joined(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            st.builds(Not, inner),
            st.builds(And, several),
            st.builds(Or, several),
            st.builds(Comparison, inner, st.sampled_from(SIGNS), inner),
            st.builds(Membership, inner, paths),
        )

    return st.recursive(leaves, joined, max_leaves=8)


@settings(max_examples=200)
@given(trees(PATHS, NUMBERS, TEXTS))
def test_what_is_written_is_read_back(tree: Node) -> None:
    """The types survive (1, 1.0 and TRUE differ), and writing the result again gives the same text."""
    text = written(tree)
    found = parse(text)
    assert repr(found) == repr(tree)
    assert written(found) == text


# --- the oracle: the tree as Python, evaluated by Python


class Unknown(Exception):
    pass


def python(node: Node) -> str:
    match node:
        case Literal(value):
            return repr(value)
        case Component(path):
            return f"simple({path!r})"
        case Exist(path):
            return f"is_there({path!r})"
        case Default():
            return "False"
        case Not(operand):
            return f"(not boolean({python(operand)}))"
        case And(operands):
            return "(" + " and ".join(f"boolean({python(each)})" for each in operands) + ")"
        case Or(operands):
            return "(" + " or ".join(f"boolean({python(each)})" for each in operands) + ")"
        case Comparison(left, sign, right):
            return f"(lambda pair: pair[0] {sign} pair[1])(pair({python(left)}, {python(right)}))"
        case Substring(part, whole):
            return f"(text({python(part)}) in text({python(whole)}))"
        case Membership(item, path):
            return f"contains({python(item)}, {path!r})"
        case Sum(first, rest) | Product(first, rest):
            so_far = f"number({python(first)})"
            for sign, each in rest:
                so_far = f"bounded({so_far} {sign} number({python(each)}))"
            return so_far


def found_at(path: Path) -> object:
    match path:
        case Path(str(name), ()):
            return PLAIN.get(name)
        case Path("Location", (Element(0), Member("id"))):
            return "hostC"
        case Path("Location", (Trait.LENGTH,)):
            return 2
    return None


def of_type(*types: type) -> Callable[[object], object]:
    def check(value: object) -> object:
        if type(value) not in types:
            raise Unknown
        return value

    return check


def bounded(value: float) -> float:
    if not isfinite(value) or (isinstance(value, int) and abs(value) >= 2**127):
        raise Unknown
    return value


def pair(left: object, right: object) -> tuple[object, object]:
    if (type(left) is bool) != (type(right) is bool):
        raise Unknown
    return (str(left), str(right)) if str in (type(left), type(right)) else (left, right)


def contains(item: object, path: Path) -> bool:
    found = found_at(path)
    if type(found) is Location:
        return False
    if type(found) is not tuple:
        raise Unknown
    for each in found:
        try:
            left, right = pair(item, each)
        except Unknown:
            continue
        if left == right:
            return True
    return False


ORACLE = {
    "Path": Path,
    "Element": Element,
    "Member": Member,
    "Trait": Trait,
    "simple": lambda path: of_type(bool, int, float, str)(found_at(path)),
    "is_there": lambda path: found_at(path) is not None,
    "boolean": of_type(bool),
    "text": of_type(str),
    "number": of_type(int, float),
    "bounded": bounded,
    "pair": pair,
    "contains": contains,
}


@settings(max_examples=300)
@given(trees(KNOWN, SMALL_NUMBERS, SMALL_TEXTS))
def test_it_means_what_python_says(tree: Node) -> None:
    """Both agree on true, false or undefined, for values of every type and for missing components."""
    source = python(tree)
    for trait in Trait:
        source = source.replace(repr(trait), str(trait))
    try:
        result = eval(source, dict(ORACLE))
        expected = (Truth.TRUE if result else Truth.FALSE) if type(result) is bool else Truth.UNDEFINED
    except (Unknown, ZeroDivisionError):
        expected = Truth.UNDEFINED
    assert evaluate(tree, EVENT).truth is expected


# --- any text at all

PIECES = [
    *KEYWORDS,
    "$",
    "$a",
    "$.",
    "[0]",
    "(a)",
    "._length",
    "'",
    "‘",
    "’",
    "\\",
    "'x'",
    "1",
    ".5",
    "1e9",
    *SIGNS,
]
PIECES += [
    "+",
    "-",
    "*",
    "/",
    "~",
    "(",
    ")",
    "[",
    "]",
    " ",
    "\n",
    '"',
    "=",
    "\0",
    "\ud800",
    "é",
    "$Location",
    "not (",
]
ANYTHING = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join)

CALLS_PER_LETTER = 40
"""More calls than parsing and evaluating one letter takes, however it is used."""


def counted_calls(text: str) -> int:
    """Parse and evaluate the text, and count the calls of Python functions."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        evaluate(parse(text), EVENT)
    except InvalidConstraint:
        pass
    finally:
        sys.setprofile(None)
    return calls


@settings(max_examples=200)
@given(ANYTHING)
def test_any_text_is_a_constraint_or_refused(text: str) -> None:
    """Only InvalidConstraint is ever raised, whatever the text, and a valid text is read back the same."""
    try:
        tree = parse(text)
    except InvalidConstraint:
        return
    assert repr(parse(written(tree))) == repr(tree)
    evaluate(tree, EVENT)


@settings(max_examples=15)
@given(ANYTHING.filter(bool), st.sampled_from([1_000, 8_000, CONSTRAINT_MAX, CONSTRAINT_MAX + 1]))
def test_long_texts_take_bounded_steps(text: str, letters: int) -> None:
    """The steps, counted in calls, are bounded by the number of letters, for a repetition of anything."""
    repeated = (text * (letters // len(text) + 1))[:letters]
    assert counted_calls(repeated) <= CALLS_PER_LETTER * letters


@pytest.mark.parametrize(
    "piece", ["1+", "TRUE and ", "not (", "((", "$a.b", "$a[0]", "'\\'", "1.", "exist ", "$Location in "]
)
def test_repetitions_of_one_piece_take_bounded_steps(piece: str) -> None:
    repeated = (piece * CONSTRAINT_MAX)[:CONSTRAINT_MAX]
    assert counted_calls(repeated) <= CALLS_PER_LETTER * CONSTRAINT_MAX
