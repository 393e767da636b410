"""The replication manager of a domain of real processes, reached through its hosts' HTTP endpoints."""

import time
from collections.abc import Callable
from typing import Any

import httpx
from domain import WAIT_S, Domain

from holdfast.node.layout import Layout


class Manager:
    """The replication manager, as a program reaches it through the endpoints of its domain (FTC-220)."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.name = Layout(domain.directory).read().domain
        hosts = domain.status()["hosts"]
        self.doors = [host["report"]["details"]["http"] for host in hosts]
        self._client = httpx.Client(timeout=240, trust_env=False)

    def ask(self, method: str, path: str, body: object = None, door: int = 0) -> httpx.Response:
        return self._client.request(method, self.doors[door] + path, json=body)

    def done(self, method: str, path: str, body: object = None) -> Any:
        answer = self.ask(method, path, body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def refused(self, method: str, path: str, body: object = None, door: int = 0) -> str:
        """Return the exception name that the source gives for the refusal."""
        found: str = self.ask(method, path, body, door).json()["error"]["exception"]
        return found

    def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        """Return what is at *path* once *holds* is true of it."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            found = self.done("GET", path)
            if holds(found):
                return found
            time.sleep(0.05)
        raise AssertionError(f"did not happen within {WAIT_S:g} s: {found}")

    def in_sync(self, name: str, count: int) -> Any:
        """Return the group's reference once that many members have everything."""
        return self.until(
            f"/v1/groups/{name}/reference",
            lambda found: [each["in_sync"] for each in found["members"]] == [True] * count,
        )

    def deposit(self, name: str, door: int = 0) -> int:
        found: int = self.call(name, "deposit", "alice", 1, door=door)
        return found

    def call(self, name: str, method: str, *arguments: object, door: int = 0) -> Any:
        """Call a method of the group and return its result."""
        path = f"/v1/groups/{name}/calls/{method}?duration_s=60"
        answer = self.ask("POST", path, list(arguments), door)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    def close(self) -> None:
        self._client.close()
