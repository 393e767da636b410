"""The measured systems start, answer, survive their leader's death, and are gone afterwards."""

from pathlib import Path

import pytest
import uvloop

from holdfast.bench import growth
from holdfast.bench.growth import measure_idle
from holdfast.bench.handover import run_handover_bench
from holdfast.bench.measuring.callers import Load
from holdfast.bench.nested import QUERY_MS, WAIT_S, run_nested_bench
from holdfast.bench.systems import Absent, System
from holdfast.bench.systems.etcd import Etcd
from holdfast.bench.systems.ours import Holdfast
from holdfast.bench.systems.pysyncobj import PySyncObj
from holdfast.bench.systems.redis import Redis

pytestmark = pytest.mark.cluster


async def measure(system: System, directory: Path) -> tuple[Load, float | None]:
    async with system.running(directory) as running:
        return await running.load(in_flight=16, seconds=0.1), await running.fail_over()


def tried(system: System, directory: Path) -> tuple[Load, float | None]:
    try:
        return uvloop.run(measure(system, directory))
    except Absent as why:
        pytest.skip(str(why))


def test_ours_is_measured(tmp_path: Path) -> None:
    """Calls are counted with what each process spent on them; a call after the kill is answered."""
    load, fail_over_s = tried(Holdfast(), tmp_path)
    assert load.calls >= 16
    assert load.cpu_s.keys() == {"host1", "host2", "host3", "client"}
    assert fail_over_s is not None
    assert fail_over_s > 0


def test_ours_is_measured_by_tls(tmp_path: Path) -> None:
    """The same with certificates for every process and for the client."""
    load, fail_over_s = tried(Holdfast(has_tls=True), tmp_path)
    assert load.calls >= 16
    assert fail_over_s is not None


@pytest.mark.usefixtures("etcd_program")
def test_etcd_is_measured(tmp_path: Path) -> None:
    """The bare gRPC client gets answers from a real etcd, also from the one that takes over."""
    load, fail_over_s = tried(Etcd(), tmp_path)
    assert load.calls >= 16
    assert load.cpu_s.keys() == {"etcd1", "etcd2", "etcd3", "client"}
    assert fail_over_s is not None
    assert fail_over_s > 0


def test_pysyncobj_is_measured(tmp_path: Path) -> None:
    load, fail_over_s = tried(PySyncObj(), tmp_path)
    assert load.calls >= 16
    assert fail_over_s is not None
    assert fail_over_s > 0


def test_idle_groups_are_measured(tmp_path: Path) -> None:
    """There are rows for more and more groups, each with all members in sync; a group needs no descriptor of
    its own."""
    few, more = uvloop.run(measure_idle([1, 8], 0.1, lambda _: None))
    assert (few.groups, more.groups) == (1, 8)
    assert more.descriptors < few.descriptors + 7
    assert growth.idle_row(more)[0] == "8"


def test_redis_is_measured(tmp_path: Path) -> None:
    """It has no failover here, and says so."""
    load, fail_over_s = tried(Redis(), tmp_path)
    assert load.calls >= 16
    assert fail_over_s is None


def test_a_hand_over_is_measured() -> None:
    """Callers that never pause see a gap, and none of their calls fails."""
    found = run_handover_bench(rounds=1, callers=4)
    assert found["calls"] >= 4
    assert found["calls_failed"] == 0
    assert found["failures"] == []
    assert len(found["gap_ms"]) == 1


def test_groups_that_wait_for_groups_are_measured() -> None:
    """All calls arrive once, circles occur and are broken without anyone waiting in vain, and queries
    meanwhile see the state before the waiting operation."""
    found = run_nested_bench(rounds=1, calls=50)
    assert found["failures"] == []
    together, circles, queries = found["results"]
    assert together["ours"] > 0
    assert circles["rounds"] >= 1
    assert circles["ours"] < WAIT_S * 1e3, "refused, and not ended by its timeout"
    assert queries["other"] == QUERY_MS
