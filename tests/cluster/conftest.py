"""Fixtures of real faults. Each skips its test, with a reason, where the machine lacks the means."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from authority_backends import EtcdBackend
from etcd_cluster import EtcdCluster
from faults.disk import FaultyDisk
from faults.machine import require_fuse, require_tun
from faults.preload import build_library
from workload import Workload

from holdfast.demo.network.internet import Internet


@pytest.fixture(scope="session", autouse=True)
def _callers_without_rest(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--long"):
        Workload.pace_s = 0.0


@pytest.fixture
def faulty_disk(tmp_path: Path) -> Iterator[FaultyDisk]:
    """An empty disk that fails on command."""
    require_fuse()
    with FaultyDisk(tmp_path / "disk", seed=1) as disk:
        yield disk


@pytest.fixture
def internet() -> Iterator[Internet]:
    """Three machines a, b, c on a network that fails on command."""
    require_tun()
    with Internet(["a", "b", "c"], seed=1) as net:
        yield net


@pytest.fixture(scope="session")
def failing_calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a process's own calls fail (``faults.preload``)."""
    return build_library(tmp_path_factory.mktemp("preload"))


@pytest.fixture(scope="session")
def etcd_backend(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdBackend]:
    """A real cluster of three members, shared by all etcd tests of one worker."""
    cluster = EtcdCluster(etcd_program, tmp_path_factory.mktemp("etcd"))
    try:
        cluster.start()
        yield EtcdBackend(cluster)
    finally:
        cluster.stop()
