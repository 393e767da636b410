"""The benchmark :mod:`.control`, on etcd."""

from typing import Any

from holdfast.bench import Progress
from holdfast.bench.control import GROUPS_DEFAULT, measure_control
from holdfast.bench.measuring.etcd_cluster import run_on_etcd


def run_control_on_etcd_bench(
    *, rounds: int = 3, groups: int = GROUPS_DEFAULT, progress: Progress = lambda _: None
) -> dict[str, Any]:
    return run_on_etcd(lambda endpoints: measure_control(rounds, groups, endpoints, progress), progress)
