"""All benchmarks in one run: what is announced beforehand, and the verdict."""

from typing import Any

from holdfast.bench import groups, growth, ldap, log, net
from holdfast.bench.all import (
    CALL_ROWS,
    LDAP_LOADS,
    LOG_BATCHES,
    NET_SHAPES,
    SYSTEMS,
    Part,
    Run,
    Verdict,
    agenda,
    run_through,
)
from holdfast.bench.measuring.callers import Load
from holdfast.bench.report import CPU_COLUMNS, Sample, cpu_row
from holdfast.model.errors import Unavailable

MET: dict[str, Any] = {"results": [{"name": "met", "met": True}]}
MISSED: dict[str, Any] = {"results": [{"name": "missed", "met": False}]}
LAME: dict[str, Any] = {**MET, "failures": ["Holdfast (disk), round 2: TimeoutError()"]}


def run(**measured: dict[str, Any] | None) -> Run:
    """Return a run in which each benchmark finds this, or fails."""

    def measure(part: Part) -> dict[str, Any]:
        found = measured[part.name]
        if found is None:
            raise Unavailable("no host came up")
        return found

    return run_through([Part(name, {}, 1.0) for name in measured], measure, lambda _: None)


def test_a_missed_target_is_told_from_a_failure() -> None:
    """A missed target is a finding; not having measured is a failure, whatever else was missed."""
    assert run(net=MET, log=MET).verdict is Verdict.MET
    assert run(net=MET, log=MISSED).verdict is Verdict.MISSED
    assert run(net=None, log=MISSED).verdict is Verdict.FAILED


def test_one_that_fails_does_not_keep_the_others_from_being_measured() -> None:
    found = run(net=None, log=MET)
    assert [row["name"] for row in found.results()] == ["met"]
    assert found.failures == ["net: Unavailable('no host came up')"]


def test_a_round_in_which_ours_failed_is_a_failure() -> None:
    """The rows that were measured are kept."""
    found = run(groups=LAME)
    assert found.verdict is Verdict.FAILED
    assert found.results() == MET["results"]


def test_rows_can_be_had_of_some_benchmarks_only() -> None:
    found = run(net=MET, groups=MISSED)
    assert found.results({"net"}) == MET["results"]
    assert found.results() == MET["results"] + MISSED["results"]


def test_what_is_expected_grows_with_what_is_asked_for() -> None:
    """The expected time also counts what there really is to measure."""
    assert len(net.SHAPES) == NET_SHAPES
    assert len(log.BATCHES) == LOG_BATCHES
    assert len(groups.SYSTEMS) == SYSTEMS
    assert len(ldap.CELLS) == LDAP_LOADS
    assert len(growth.MEMBERS) + len(growth.PAYLOADS) == CALL_ROWS
    short = agenda(rounds=1, seconds=0.1, groups=10)
    long = agenda(rounds=None, seconds=None, groups=10_000)
    assert all(less.expected_s < more.expected_s for less, more in zip(short, long, strict=True))


def test_each_process_has_its_cpu_time_in_the_table() -> None:
    """The table shows CPU time per 1,000 calls, as the median over the rounds; members by rank, since the
    leader may change."""

    def load(calls: int, **cpu_s: float) -> Load:
        return Load(in_flight=1, calls=calls, seconds=1.0, p50_ms=1.0, p99_ms=1.0, cpu_s=cpu_s)

    first = load(1_000, client=0.5, host1=0.3, host2=0.1)
    second = load(1_000, client=0.7, host1=0.2, host2=0.4)
    inside = load(10_000, member1=1.0)
    row = cpu_row("disk: ours", [Sample(one=first, many=inside), Sample(one=second, many=inside)])
    assert len(row) == len(CPU_COLUMNS)
    assert row == ("disk: ours", "600", "350 + 150", "-", "100")
