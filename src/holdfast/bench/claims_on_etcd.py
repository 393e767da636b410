"""The benchmark :mod:`.claims`, on etcd."""

from typing import Any

from holdfast.bench import Progress
from holdfast.bench.claims import measure_claims
from holdfast.bench.measuring.etcd_cluster import run_on_etcd


def run_claims_on_etcd_bench(
    *, rounds: int = 3, groups: int = 1_000, progress: Progress = lambda _: None
) -> dict[str, Any]:
    return run_on_etcd(lambda endpoints: measure_claims(rounds, groups, endpoints, progress), progress)
