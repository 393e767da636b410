"""A real etcd cluster on loopback, whose members can be killed, paused and restarted."""

import json
import signal
import subprocess
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.node.links import free_addresses

START_S = 60.0
HEARTBEAT_MS = 50
ELECTION_MS = 500
"""Short, so that a new leader is elected soon; this is also why etcd grants leases of one second here."""


@dataclass
class Member:
    """One etcd process, running or ended."""

    name: str
    client: str
    peer: str
    directory: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)


class EtcdCluster:
    """Three members (or one), started once; tests that harm them repair them."""

    def __init__(
        self,
        program: str,
        directory: Path,
        *,
        size: int = 3,
        scheme: str = "http",
        options: tuple[str, ...] = (),
    ) -> None:
        self._program = program
        self._options = options
        ports = [each.port for each in free_addresses("127.0.0.1", 2 * size)]  # etcd cannot choose its own
        self.members = [
            Member(
                f"m{number}",
                f"{scheme}://127.0.0.1:{ports[2 * number]}",
                f"http://127.0.0.1:{ports[2 * number + 1]}",
                directory / f"m{number}",
            )
            for number in range(size)
        ]

    @property
    def endpoints(self) -> list[str]:
        return [member.client for member in self.members]

    def start(self, *, is_answering: bool = True) -> None:
        """Start every member and wait until each knows a leader, if they can be asked."""
        for member in self.members:
            self._spawn(member)
        if is_answering:
            self.wait_until_whole()

    def stop(self) -> None:
        for member in self.members:
            self.kill(member)

    def kill(self, member: Member) -> None:
        """Kill -9 a member, and wait until it is gone."""
        if member.process is not None:
            member.process.send_signal(signal.SIGKILL)
            member.process.wait()
            member.process = None

    def pause(self, member: Member) -> None:
        assert member.process is not None
        member.process.send_signal(signal.SIGSTOP)

    def resume(self, member: Member) -> None:
        assert member.process is not None
        member.process.send_signal(signal.SIGCONT)

    def heal(self) -> None:
        """Start what was killed and wait until the cluster is whole."""
        for member in self.members:
            if member.process is None:
                self._spawn(member)
        self.wait_until_whole()

    def leader(self) -> Member:
        """Return the current leader."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            for member in self.members:
                status = self._status(member)
                if status and status.get("leader", "0") == status["header"]["member_id"]:
                    return member
            time.sleep(0.05)
        raise TimeoutError("etcd has no leader")

    def wait_until_whole(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            statuses = [self._status(member) for member in self.members]
            leaders = {status.get("leader", "0") if status else "0" for status in statuses}
            if len(leaders) == 1 and leaders != {"0"}:
                return
            time.sleep(0.05)
        raise TimeoutError(f"etcd is not whole after {START_S:g} s")

    def compact(self, revision: int) -> None:
        """Forget the history before *revision*."""
        self._post(self.leader(), "/v3/kv/compaction", {"revision": str(revision), "physical": True})

    def _spawn(self, member: Member) -> None:
        state = "existing" if member.directory.exists() else "new"
        member.directory.parent.mkdir(parents=True, exist_ok=True)
        with (member.directory.parent / f"{member.name}.log").open("ab") as log:
            member.process = subprocess.Popen(
                [
                    self._program,
                    f"--name={member.name}",
                    f"--data-dir={member.directory}",
                    f"--listen-client-urls={member.client}",
                    f"--advertise-client-urls={member.client}",
                    f"--listen-peer-urls={member.peer}",
                    f"--initial-advertise-peer-urls={member.peer}",
                    "--initial-cluster=" + ",".join(f"{each.name}={each.peer}" for each in self.members),
                    f"--initial-cluster-state={state}",
                    f"--heartbeat-interval={HEARTBEAT_MS}",
                    f"--election-timeout={ELECTION_MS}",
                    "--logger=zap",
                    *self._options,
                ],
                stdout=log,
                stderr=log,
                # As hosts are: a busy machine may divide its time by sessions.
                start_new_session=True,
            )

    def _status(self, member: Member) -> dict[str, Any] | None:
        if member.process is None:
            return None
        try:
            return self._post(member, "/v3/maintenance/status", {})
        except OSError:
            return None

    def _post(self, member: Member, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(member.client + path, data=json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=1.0) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
