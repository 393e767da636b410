"""The same domain on a real etcd: hosts live on while etcd loses its leader."""

import os
import signal
from pathlib import Path

import pytest
from authority_backends import EtcdBackend
from domain import Domain, is_whole

pytestmark = [pytest.mark.cluster, pytest.mark.etcd]


def test_a_domain_on_etcd_survives_the_loss_of_etcds_leader(
    tmp_path: Path, etcd_backend: EtcdBackend
) -> None:
    """No host ends with the leader, and one killed meanwhile gets its new incarnation from the rest."""
    endpoints = [word for endpoint in etcd_backend.cluster.endpoints for word in ("--etcd", endpoint)]
    with Domain(tmp_path / "d", "--hosts", "2", *endpoints) as domain:
        before = domain.wait("whole", is_whole)
        assert before["authority"]["kind"] == "etcd"
        try:
            etcd_backend.cluster.kill(etcd_backend.cluster.leader())
            os.kill(before["hosts"][1]["pid"], signal.SIGKILL)
            after = domain.wait(
                "host2 is back",
                lambda now: is_whole(now) and now["hosts"][1]["pid"] != before["hosts"][1]["pid"],
            )
        finally:
            etcd_backend.cluster.heal()
        assert after["hosts"][0]["pid"] == before["hosts"][0]["pid"]
        assert after["hosts"][1]["incarnation"] > before["hosts"][1]["incarnation"]
