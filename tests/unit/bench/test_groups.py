"""How groups are compared with other systems, and the table that shows it."""

from holdfast.bench.groups import DURABILITIES, SYSTEMS, Measured, judged
from holdfast.bench.measuring.callers import Load, quantile
from holdfast.bench.report import MEASURES, TARGETS, Sample, side_by_side
from holdfast.bench.systems import Durability


def load(rate: float) -> Load:
    calls = int(rate * 2)
    return Load(
        in_flight=1, calls=calls, seconds=2.0, p50_ms=1.0, p99_ms=4.0, cpu_s={"a": 1.0, "client": 1.0}
    )


def measured(name: str, rates: list[float], durability: Durability = "disk") -> Measured:
    samples = [Sample(one=load(rate), many=load(rate * 10), fail_over_ms=50.0) for rate in rates]
    return Measured(name=name, durability=durability, configuration="", samples=list(samples))


def test_ours_is_judged_beside_each_peer_round_by_round() -> None:
    """The ratios are those of the rounds' pairs; their median is compared with that peer's target, and their
    spread is shown."""
    results = judged([measured("Holdfast", [500, 300, 800]), measured("etcd", [100, 100, 100]), memory()])
    rate = next(each for each in results if each.name == "disk: 1 caller")
    assert (rate.ratio, rate.ratio_low, rate.ratio_high, rate.target, rate.met) == (5.0, 3.0, 8.0, 2.5, True)
    many = next(each for each in results if each.name == "disk: 1,000 in flight")
    assert (many.ratio, many.target, many.met) == (5.0, 8.0, False)


def test_a_failover_is_held_against_the_peer_and_against_a_limit() -> None:
    results = judged([measured("Holdfast", [1]), measured("etcd", [1]), memory()])
    beside, limit = [each for each in results if each.name == "disk: kill -9 to the next answer"]
    assert (beside.other_name, beside.is_at_most, beside.ratio, beside.met) == ("etcd", True, 1.0, False)
    assert (limit.other_name, limit.ratio, limit.met) == ("limit", 0.5, True)


def test_a_peer_that_is_absent_leaves_its_column_out() -> None:
    """A system that fails in a later round is compared over the rounds it has."""
    results = judged(
        [measured("Holdfast", [500, 500]), measured("etcd", [100]), measured("Redis", []), memory()]
    )
    assert {each.other_name for each in results} == {"etcd", "limit"}
    assert all(each.rounds == 1 for each in results if each.other_name == "etcd")


def test_a_round_in_which_one_failed_is_no_pair() -> None:
    """The other rounds keep their pairs."""
    ours, etcd = measured("Holdfast", [500, 700, 900]), measured("etcd", [100, 100, 100])
    ours.samples[0] = etcd.samples[1] = None
    rate = judged([ours, etcd, memory()])[0]
    assert (rate.name, rate.rounds, rate.ratio) == ("disk: 1 caller", 1, 9.0)


def test_the_table_has_a_row_for_each_measure_and_a_column_for_each_peer() -> None:
    results = judged(
        [measured("Holdfast", [500]), measured("etcd", [100]), measured("Redis", [100]), memory()]
    )
    columns, rows = side_by_side(results)
    assert columns == ["", "Holdfast", "etcd", "Redis", "wanted", ""]
    assert len(rows) == len(MEASURES)
    assert rows[0] == [
        "disk: 1 caller",
        "500 calls/s",
        "100  ×5 (5–5)",
        "100  ×5 (5–5)",
        "≥ 2.5 × etcd",
        "met",
    ]
    assert rows[4][-2:] == ["≥ 8 × etcd\n≥ 1.2 × Redis", "MISSED\nmet"]


def test_every_target_names_a_system_that_is_measured() -> None:
    """A target whose peer is misspelt would never be judged."""
    known = {(system.name, system.durability) for system in SYSTEMS}
    assert {(target.peer, target.durability) for target in TARGETS} <= known
    assert all(target.measure in MEASURES for target in TARGETS)
    assert {("Holdfast", durability) for durability in DURABILITIES} <= known


def test_quantiles_are_of_the_calls_that_were_made() -> None:
    assert quantile([], 0.99) == 0.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert quantile([float(each) for each in range(100)], 0.99) == 99.0


def memory() -> Measured:
    return measured("Holdfast", [], "memory")
