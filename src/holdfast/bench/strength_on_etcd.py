"""The benchmark :mod:`.strength`, on etcd."""

from typing import Any

from holdfast.bench import Progress
from holdfast.bench.measuring.etcd_cluster import run_on_etcd
from holdfast.bench.strength import HOSTS, LOSS_S, measure_strength


def run_strength_on_etcd_bench(
    *, rounds: int = 1, groups: int = 300, progress: Progress = lambda _: None
) -> dict[str, Any]:
    return run_on_etcd(
        lambda endpoints: measure_strength(rounds, groups, HOSTS, LOSS_S, endpoints, progress), progress
    )
