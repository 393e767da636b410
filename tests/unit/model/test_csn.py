"""The CSN value and its string forms."""

import itertools
import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.csn import (
    TIMESTAMP_MAX,
    ZERO,
    Csn,
    CsnSyntax,
    Form,
    compare_text,
    parse,
    parse_form,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

EXAMPLE = "03626325e0001a1a1"
EXAMPLE_CSN = Csn(0x3626325E, 1, ReplicaId(0xA1A1))

uint16 = st.integers(0, 0xFFFF)
csns = st.builds(Csn, st.integers(0, TIMESTAMP_MAX), uint16, uint16.map(ReplicaId), uint16)
# The values are close together, so that equal parts are common.
near_csns = st.builds(
    Csn, st.integers(7, 8), st.integers(0, 2), st.integers(0, 2).map(ReplicaId), st.integers(0, 1)
)


@pytest.mark.covers("CSN-1")
def test_has_exactly_four_parts() -> None:
    """A CSN is {T, S, r, s} and nothing else."""
    assert msgspec.structs.astuple(Csn(1, 2, ReplicaId(3), 4)) == (1, 2, 3, 4)
    with pytest.raises(TypeError):
        Csn(1, 2, ReplicaId(3), 4, 5)  # type: ignore[call-arg]  # the very thing that must fail


@pytest.mark.covers("CSN-2", "CSN-3", "CSN-4", "CSN-5", "CSN-7")
@pytest.mark.parametrize(
    ("part", "largest"),
    [("timestamp", 2**32 - 1), ("sequence", 2**16 - 1), ("replica", 2**16 - 1), ("sub_sequence", 2**16 - 1)],
)
def test_each_part_has_its_width(part: str, largest: int) -> None:
    """Every value of a part's width is accepted; the next one on either side is refused by name, not
    wrapped."""
    parts = {"timestamp": 1, "sequence": 2, "replica": ReplicaId(3), "sub_sequence": 4}
    for value in (0, largest):
        assert getattr(Csn(**parts | {part: value}), part) == value
    for value in (-1, largest + 1, 2**64):
        with pytest.raises(InvalidRequest, match=f"{part} {value} is not within 0..{largest}"):
            Csn(**parts | {part: value})


@pytest.mark.covers("CSN-7")
def test_a_received_csn_is_checked_too() -> None:
    """A message cannot contain what the constructor refuses."""
    decoder = msgspec.msgpack.Decoder(Csn)
    assert decoder.decode(msgspec.msgpack.encode(EXAMPLE_CSN)) == EXAMPLE_CSN
    for parts in (
        [2**32, 0, 1, 0],
        [1, 65_536, 1, 0],
        [1, 1, -1, 0],
        [1, 1, 1, 65_536],
        [1.5, 1, 1, 0],
        [1, 1],
    ):
        with pytest.raises(msgspec.ValidationError):
            decoder.decode(msgspec.msgpack.encode(parts))


@pytest.mark.covers("CSN-6")
@given(csns)
def test_zero_is_lowest(csn: Csn) -> None:
    """A CSN that has not been assigned is lower than every generated one."""
    assert csn >= ZERO
    assert csn.timestamp == 0 or csn > ZERO


@pytest.mark.covers("CSN-8")
@given(near_csns, near_csns, near_csns)
def test_order_is_total(a: Csn, b: Csn, c: Csn) -> None:
    """The order is T, then S, then r, then s; it is antisymmetric, transitive and total."""
    key_a, key_b = ((x.timestamp, x.sequence, x.replica, x.sub_sequence) for x in (a, b))
    assert (a < b) == (key_a < key_b)
    assert (a == b) == (key_a == key_b)
    assert (a < b) + (b < a) + (a == b) == 1
    if a <= b and b <= c:
        assert a <= c


@given(near_csns, near_csns)
def test_same_operation_ignores_only_the_sub_sequence(a: Csn, b: Csn) -> None:
    """Two CSNs belong to one operation exactly when they differ in nothing but s."""
    same = (a.timestamp, a.sequence, a.replica) == (b.timestamp, b.sequence, b.replica)
    assert a.is_same_operation(b) == same
    assert (a.operation == b.operation) == same
    assert a.operation.sub_sequence == 0


@pytest.mark.covers("CSN-5")
def test_parts_of_one_operation_are_ordered() -> None:
    """The parts are in order, all before the next operation, and only 65,536 fit."""
    operation = Csn(5, 9, ReplicaId(1))
    parts = [operation.part(index) for index in (0, 1, 2, 65_535)]
    assert parts == sorted(parts)
    assert parts[0] == operation
    assert parts[-1] < Csn(5, 10, ReplicaId(1))
    with pytest.raises(InvalidRequest):
        operation.part(65_536)


# --- strings: for the directory, which does not exist yet; no row of the checklist is claimed


def test_the_example_of_the_source() -> None:
    """The source's own string is read as the source explains it, and written back exactly."""
    csn = parse(EXAMPLE)
    assert (csn.timestamp, csn.sequence, csn.replica, csn.sub_sequence) == (908_472_926, 1, 0xA1A1, 0)
    assert csn.text() == str(csn) == EXAMPLE
    assert parse_form(EXAMPLE)[0] is Form.TIMESTAMP_FIRST
    assert len(EXAMPLE) == 17


def test_is_rendered_in_utc_for_people() -> None:
    """Thu 15 Oct 1998 10:35:26 PDT is 17:35:26 UTC; s is shown when there is one; T ends in 2106."""
    assert EXAMPLE_CSN.describe() == "1998-10-15T17:35:26Z #1 replica 41377"
    assert EXAMPLE_CSN.part(7).describe() == "1998-10-15T17:35:26Z #1 replica 41377 part 7"
    assert Csn(TIMESTAMP_MAX, 0, ReplicaId(1)).describe() == "2106-02-07T06:28:15Z #0 replica 1"


def test_text_sorts_as_the_value(rounds: Callable[..., int]) -> None:
    """Sorting the strings sorts the CSNs, with and without s; in replica-first form, replica by replica."""
    rng = random.Random(11)
    population = [
        Csn(
            rng.choice((rng.getrandbits(32), rng.randrange(3))),
            rng.getrandbits(16),
            ReplicaId(rng.getrandbits(16)),
            rng.choice((0, 0, rng.getrandbits(16))),
        )
        for _ in range(rounds(short=50_000, long=1_000_000))
    ]
    in_order = sorted(population)
    assert sorted(csn.text() for csn in population) == [csn.text() for csn in in_order]
    by_replica = sorted(population, key=lambda csn: (csn.replica, csn))
    assert sorted(csn.replica_text() for csn in population) == [csn.replica_text() for csn in by_replica]


@given(near_csns, near_csns)
def test_comparison_of_strings(a: Csn, b: Csn) -> None:
    """Comparing strings means comparing CSNs, whether hyphenated or not."""
    expected = (a > b) - (a < b)
    assert compare_text(a.text(), b.text()) == expected
    assert compare_text(a.hyphenated(), b.text()) == expected


def test_hyphens_are_optional() -> None:
    """Both forms read the same; the compact one saves more than a tenth."""
    assert EXAMPLE_CSN.hyphenated() == "03626325e-0001-a1a1"
    assert EXAMPLE_CSN.part(0x1B).hyphenated() == "03626325e-0001-a1a1-001b"
    for text in (EXAMPLE, "03626325e-0001-a1a1", "0-3626325e-0001-a1a1", "1a1a1-3626325e-0001"):
        assert parse(text) == EXAMPLE_CSN
    for text in ("03626325e-0001-a1a1-001b", "0-3626325e-0001-a1a1-001b", "03626325e0001a1a1001b"):
        assert parse(text) == EXAMPLE_CSN.part(0x1B)
    assert 1 - len(EXAMPLE_CSN.text()) / len(EXAMPLE_CSN.hyphenated()) > 0.1


def test_sub_sequence_makes_the_long_form() -> None:
    """The string has 17 characters when s is 0, else 21. Both are read for s = 0; the order holds across
    lengths."""
    assert parse(EXAMPLE).sub_sequence == 0
    assert parse(EXAMPLE + "0000") == EXAMPLE_CSN
    assert EXAMPLE_CSN.text() == EXAMPLE
    assert [len(EXAMPLE_CSN.replica_text()), len(EXAMPLE_CSN.part(1).replica_text())] == [17, 21]
    assert EXAMPLE_CSN.part(1).text() == EXAMPLE + "0001"
    following = Csn(EXAMPLE_CSN.timestamp, 2, ReplicaId(0))
    texts = [EXAMPLE, EXAMPLE + "0001", EXAMPLE + "ffff", following.text()]
    assert texts == sorted(texts)


def test_replica_first() -> None:
    """The mark 1 puts the replica first, and strings with different marks are not compared."""
    assert EXAMPLE_CSN.replica_text() == "1a1a13626325e0001"
    assert parse_form("1a1a13626325e0001") == (Form.REPLICA_FIRST, EXAMPLE_CSN)
    earlier_of_higher_replica = Csn(1, 0, ReplicaId(0xFFFF)).replica_text()
    assert compare_text(EXAMPLE_CSN.replica_text(), earlier_of_higher_replica) == -1
    with pytest.raises(InvalidRequest, match="different forms"):
        compare_text(EXAMPLE, EXAMPLE_CSN.replica_text())


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("2" + EXAMPLE[1:], 0),
        ("x", 0),
        (EXAMPLE[:-1], 16),
        (EXAMPLE + "0", 18),
        (EXAMPLE + "0" * 100, 25),
        ("03626325E0001a1a1", 8),
        ("0362632_e0001a1a1", 7),
        ("0 626325e0001a1a1", 1),
        ("03626325e0001a1a\n", 16),
        ("03626325e0001a1a\u0661", 16),
        ("03626325e0001a1ag", 16),
        ("03626325-e0001-a1a1", 8),
        ("03626325e-0001a-1a1", 14),
        ("03626325e-0001a1a1", 18),
        ("--3626325e-0001-a1a", 0),
        ("1a1a13-626325e-0001", 5),
    ],
)
def test_malformed_strings_are_refused_where_they_are_wrong(text: str, position: int) -> None:
    """A wrong length, digit, case, mark or hyphen is refused with the position of the first fault."""
    with pytest.raises(CsnSyntax) as caught:
        parse(text)
    assert caught.value.position == position


@given(csns)
def test_every_form_comes_back(csn: Csn) -> None:
    """Every form that is written is read back as the same CSN."""
    for text in (csn.text(), csn.replica_text(), csn.hyphenated()):
        assert parse(text) == csn


@given(st.one_of(st.text(max_size=30), st.text(alphabet="01aF-9 _+\n", min_size=15, max_size=26)))
def test_nothing_is_guessed(text: str) -> None:
    """Any text is either exactly one of the forms of the CSN that it is read as, or refused."""
    position = _fault(text)
    if position is None:
        form, csn = parse_form(text)
        assert text in _all_spellings(csn, form)
    else:
        assert 0 <= position <= len(text)


@given(csns, st.integers(0, 30), st.characters())
def test_one_wrong_character_is_found_where_it_is(csn: Csn, index: int, character: str) -> None:
    """Damage to one character either gives another valid string or is reported at that position."""
    text = csn.text()
    index %= len(text)
    position = _fault(text[:index] + character + text[index + 1 :])
    if position is None:
        assert character in ("01" if index == 0 else "0123456789abcdef")
    else:
        assert position == index


def _fault(text: str) -> int | None:
    """The position of the fault in *text*; None when it is a CSN."""
    try:
        parse(text)
    except CsnSyntax as error:
        return error.position
    return None


def _all_spellings(csn: Csn, form: Form) -> set[str]:
    widths = (8, 4, 4, 4) if form is Form.TIMESTAMP_FIRST else (4, 8, 4, 4)
    digits = (csn.text if form is Form.TIMESTAMP_FIRST else csn.replica_text)()[1:17]
    spellings = set()
    for suffix in {f"{csn.sub_sequence:04x}"} | ({""} if not csn.sub_sequence else set()):
        cuts = [0, *itertools.accumulate(widths)]
        whole = digits + suffix
        parts = [whole[a:b] for a, b in itertools.pairwise(cuts) if whole[a:b]]
        spellings |= {form.value + whole, form.value + "-".join(parts), "-".join([form.value, *parts])}
    return spellings
