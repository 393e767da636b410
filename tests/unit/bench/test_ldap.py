"""How the LDAP door is compared with other directories: the persons, the command line, the verdicts."""

from pathlib import Path

from holdfast.bench.directories import SUFFIX
from holdfast.bench.directories.ldclt import (
    BASE_SEARCH,
    COUNTED,
    MODIFY,
    SEARCH_BY_UID,
    Shape,
    Throughput,
    command,
)
from holdfast.bench.directories.people import write_people
from holdfast.bench.ldap import CELLS, DIRSRV, SLAPD, Measured, judged
from holdfast.directory.ldif import EntryRecord, read_ldif


def throughput(rate: float) -> Throughput:
    return Throughput(operations=int(rate * 2), seconds=2.0, server_cpu_s=1.0, client_cpu_s=1.0)


def measured(name: str, *rates: float | None) -> Measured:
    cells = {each.name: [None if rate is None else throughput(rate) for rate in rates] for each in CELLS}
    return Measured(name=name, load_s=2.0, fresh_mb=50.0, afterwards_mb=100.0, cells=cells)


def test_the_persons_are_those_that_the_load_asks_for(tmp_path: Path) -> None:
    """The number of the generator's last person is that of the last entry, with as many digits."""
    file = tmp_path / "people.ldif"
    write_people(file, 12)
    records = [each for each in read_ldif([file.read_bytes()]) if isinstance(each, EntryRecord)]
    assert [each.dn for each in records[:2]] == [SUFFIX, f"ou=people,{SUFFIX}"]
    assert len(records) == 14
    asked = command(SEARCH_BY_UID, Shape(1, 1), 12, 389)
    mask = asked[asked.index("-f") + 1]
    assert asked[asked.index("-R") + 1] == "11"
    digits = mask.count("X")
    assert records[-1].dn.startswith(mask.replace("X" * digits, f"{11:0{digits}d}") + ",")


def test_the_command_differs_by_nothing_but_the_port() -> None:
    """Twice what is wanted in flight is asked for: the generator keeps half of its bound out."""
    for work in (SEARCH_BY_UID, BASE_SEARCH, MODIFY):
        one, other = command(work, Shape(8, 16), 100, 1389), command(work, Shape(8, 16), 100, 2389)
        assert [mine for mine, its in zip(one, other, strict=True) if mine != its] == ["1389"]
        assert one[one.index("-a") + 1] == "32"
        assert one[one.index("-n") + 1] == "8"
        assert "-a" not in command(work, Shape(8, 1), 100, 1389)


def test_what_a_sample_counted_is_told_from_the_global_statistics() -> None:
    said = (
        b"ldclt[7]: Global average rate: 12.00/thr  ( 1.20/sec), total:     12\n"
        b"ldclt[7]: Average rate:  345.00/thr  (  34.50/sec), total:    345\n"
    )
    found = COUNTED.search(said)
    assert found is not None
    assert int(found[1]) == 345


def test_each_peer_has_its_own_target() -> None:
    """Ratios are those of the rounds' pairs; a round in which one failed is no pair."""
    results = judged(
        [measured("Holdfast", 600, 900, None), measured(SLAPD, 1000, 1000, 1), measured(DIRSRV, 500, 500, 1)],
        10_000,
    )
    by_name = {(each.name, each.other_name): each for each in results}
    alone = by_name["search by uid, 1 × 1", SLAPD]
    assert (alone.ratio, alone.rounds, alone.target, alone.met) == (0.75, 2, 0.5, True)
    assert by_name["search by uid, 8 × 16", SLAPD].target == 0.7
    assert by_name["base search, 8 × 1", SLAPD].target is None
    assert by_name["base search, 8 × 1", DIRSRV].met
    assert not by_name["synced modify, 64 × 1", SLAPD].met
    memory = by_name["resident, fresh, 10,000 persons", DIRSRV]
    assert (memory.ratio, memory.is_at_most, memory.met) == (1.0, True, True)
    assert by_name["bulk load of 10,000", SLAPD].target == 0.1


def test_a_peer_that_is_absent_has_no_rows() -> None:
    absent = Measured(name=SLAPD, absent="no slapd on this machine")
    results = judged([measured("Holdfast", 600), absent, measured(DIRSRV, 500)], 10_000)
    assert {each.other_name for each in results} == {DIRSRV}
