"""The HTTP endpoint of real hosts: exactly once across kills, events without gaps, and no request that breaks
it."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from domain import WAIT_S, Domain, is_whole

LONG_S = 1800.0
"""What the long form of a test may take on a slow machine."""

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(LONG_S)]

EXAMPLES = Path(__file__).parents[2] / "examples"
RETRIES_S = 120.0
PATIENTLY = "?duration_s=60"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    directory = tmp_path_factory.mktemp("http") / "d"
    with Domain(directory, "--app", str(EXAMPLES), "--group", "ledger=ledger:Ledger") as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    domain.wait("every host hears every other", is_whole)
    return domain


def doors(domain: Domain) -> dict[str, str]:
    """Return the HTTP address of each running host, as `holdfast status` shows it."""
    hosts = [host for host in domain.status()["hosts"] if host["alive"]]
    return {host["id"]: host["report"]["details"]["http"] for host in hosts}


def coordinators_door(domain: Domain) -> str | None:
    """Return the coordinator's HTTP address, which any host knows; None while there is none."""
    url = next(iter(doors(domain).values()))
    path = "/v1/hosts/nobody/drain"
    answer = ask(url, "DELETE", path)
    if answer.status_code == 307:
        return answer.headers["location"].removesuffix(path)
    return url if answer.status_code < 500 else None


def ask(url: str, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
    content = None if body is None else msgspec.json.encode(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named["content-type"] = "application/json"
    return httpx.request(method, url + path, content=content, headers=named, timeout=240, trust_env=False)


def until(what: str, holds: Callable[[], Any]) -> Any:
    """Return what *holds* returns once that is something."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"did not happen within {WAIT_S:g} s: {what}")


class Caller:
    """Sends a call with its key to one host after the other until one gives the outcome."""

    def __init__(self, domain: Domain, name: str) -> None:
        self._doors = list(doors(domain).values())
        self._name = name
        self._random = random.Random(name)
        self.answers: list[int] = []
        self.tries = 0

    async def deposit(self, client: httpx.AsyncClient, number: int) -> None:
        headers = {"idempotency-key": f"{self._name}-{number}", "content-type": "application/json"}
        content = msgspec.json.encode([self._name, 1])
        async with asyncio.timeout(RETRIES_S):
            while True:
                self.tries += 1
                url = self._random.choice(self._doors) + "/v1/groups/ledger/calls/deposit?duration_s=5"
                try:
                    # A short timeout: the call is repeated while the first copy may still be in progress.
                    timeout = self._random.choice([0.05, 0.5, 10.0])
                    response = await client.post(url, content=content, headers=headers, timeout=timeout)
                except httpx.TransportError:
                    continue
                if response.status_code == 200:
                    self.answers.append(response.json()["result"])
                    return
                assert response.status_code in (503, 504), response.text


def test_calls_with_a_key_run_once_through_kills_of_the_primary(
    whole: Domain, rounds: Callable[..., int]
) -> None:
    """The primary's host is killed -9 in the middle of deposits that impatient callers repeat through
    whichever host answers: every deposit is in the ledger once, and every caller has counted correctly."""
    callers = [Caller(whole, f"caller{number}") for number in range(4)]
    kills, calls = rounds(short=2, long=50), 20

    async def work() -> None:
        limits = httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(limits=limits, trust_env=False) as client:

            async def deposit(caller: Caller) -> None:
                for number in range(kills * calls):
                    await caller.deposit(client, number)

            depositing = [asyncio.create_task(deposit(each)) for each in callers]
            for kill in range(kills):
                while min(len(each.answers) for each in callers) < kill * calls + calls // 2:
                    await asyncio.sleep(0.01)
                    assert not any(task.done() and task.exception() for task in depositing)
                await asyncio.to_thread(kill_primary, whole)
            await asyncio.gather(*depositing)

    asyncio.run(work())
    url = next(iter(doors(whole).values()))
    for number, each in enumerate(callers):
        assert each.answers == list(range(1, kills * calls + 1))
        balance = ask(url, "POST", f"/v1/groups/ledger/calls/balance{PATIENTLY}", [f"caller{number}"])
        assert balance.json()["result"] == kills * calls
    assert sum(each.tries for each in callers) > len(callers) * kills * calls


def kill_primary(domain: Domain) -> None:
    url = next(iter(doors(domain).values()))
    shown = ask(url, "GET", "/v1/groups/ledger").json()
    pid = domain.host(shown["primary"])["pid"]
    os.kill(pid, signal.SIGKILL)
    domain.wait("the killed host is back", lambda status: is_whole(status) and was_replaced(status, pid))


def was_replaced(status: dict[str, Any], pid: int) -> bool:
    return all(host["pid"] not in (None, pid) for host in status["hosts"])


def test_a_door_stays_where_it_was(whole: Domain) -> None:
    """A host that is killed and restarted serves HTTP at the same address, and others name it."""
    before = doors(whole)
    pid = whole.host("host2")["pid"]
    os.kill(pid, signal.SIGKILL)
    whole.wait("host2 is back", lambda status: is_whole(status) and was_replaced(status, pid))
    assert doors(whole) == before
    until("host2 serves HTTP", lambda: _is_serving(before["host2"]))
    listed = until("host1 names it", lambda: ask(before["host1"], "GET", "/v1/hosts").json()["hosts"])
    assert {each["host"]: each["http"] for each in listed} == before


def _is_serving(url: str) -> bool:
    try:
        return ask(url, "GET", "/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_groups_are_made_shown_and_removed(whole: Domain) -> None:
    """With a key a repeated order creates one group; the name of a deleted group can be used again, also by
    callers who knew the old one."""
    one, other = list(doors(whole).values())[:2]
    made = create(one, "a/b", "make")
    assert create(one, "a/b", "make") == made
    again = ask(one, "POST", "/v1/groups", {"name": "a/b", "class_name": "ledger:Ledger"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "group_exists")
    assert ask(other, "GET", "/v1/groups/a%2Fb").json()["class_name"] == "ledger:Ledger"
    names = [each["name"] for each in ask(other, "GET", "/v1/groups").json()["groups"]]
    assert names == ["a/b", "ledger"]
    page = ask(other, "GET", "/v1/groups?limit=1").json()
    assert (len(page["groups"]), page["next"]) == (1, "a/b")
    assert [each["name"] for each in ask(other, "GET", "/v1/groups?after=a/b").json()["groups"]] == ["ledger"]
    deposit = ("POST", f"/v1/groups/a%2Fb/calls/deposit{PATIENTLY}", {"account": "x", "amount": 2})
    assert ask(other, *deposit).json()["result"] == 2
    assert ask(other, *deposit, idempotency_key="k").json()["result"] == 4
    assert ask(one, "DELETE", "/v1/groups/a%2Fb").json()["group"] == made
    assert ask(one, "GET", "/v1/groups/a%2Fb").status_code == 404
    assert create(one, "a/b", "make-again") != made
    assert until("the new one is called", lambda: _result(other, *deposit, idempotency_key="k")) == 2
    assert until("the new one is called", lambda: _result(other, *deposit)) == 4
    assert ask(one, "DELETE", "/v1/groups/a%2Fb").status_code == 200


def create(url: str, name: str, key: str) -> int:
    """Create a ledger of that name, however long that takes; return its number."""
    new = {"name": name, "class_name": "ledger:Ledger"}

    def made() -> int | None:
        response = ask(url, "POST", "/v1/groups", new, idempotency_key=key)
        assert response.status_code in (201, 503, 504), response.text
        return response.json()["group"] if response.status_code == 201 else None

    group: int = until(f"{name} is made", made)
    return group


def let_take_members(domain: Domain, host: str) -> bool:
    door = coordinators_door(domain)
    return door is not None and ask(door, "DELETE", f"/v1/hosts/{host}/drain").status_code == 200


def _result(url: str, method: str, path: str, body: object, **headers: str) -> Any:
    response = ask(url, method, path, body, **headers)
    return response.json()["result"] if response.status_code == 200 else None


def test_an_active_group_is_handed_over(whole: Domain) -> None:
    """Where members are moved off a machine by a program, groups of every style must go."""
    url = next(iter(doors(whole).values()))
    made = ask(
        url, "POST", "/v1/groups", {"name": "moving", "class_name": "ledger:Ledger", "style": "active"}
    )
    assert made.status_code == 201, made.text

    def members() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ask(url, "GET", "/v1/groups/moving/reference").json()["members"]
        return found

    deadline = time.monotonic() + WAIT_S
    while not all(each["in_sync"] for each in members()) and time.monotonic() < deadline:
        time.sleep(0.05)
    to = members()[1]["host"]
    assert ask(url, "POST", "/v1/groups/moving/primary", {"location": to}).status_code == 400
    moved = ask(url, "POST", "/v1/groups/moving/handover", {"location": to})
    assert (moved.status_code, moved.json()["members"][0]["host"]) == (200, to)
    assert ask(url, "DELETE", "/v1/groups/moving").status_code in (200, 204)


def test_an_outcome_can_be_asked_for_and_is_settled_by_it(whole: Domain) -> None:
    """Any host can be asked; a request that has not run by then never will, whoever sends it."""
    one, other = list(doors(whole).values())[:2]
    deposit = ("POST", f"/v1/groups/ledger/calls/deposit{PATIENTLY}", ["asked", 3])
    request_id = ask(one, *deposit, idempotency_key="asked").json()["request_id"]
    found = ask(other, "POST", "/v1/outcomes", {"request_id": request_id}).json()
    assert (found["outcome"], found["result"]) == ("returned", 3)
    transfer = ("POST", f"/v1/groups/ledger/calls/transfer{PATIENTLY}", ["asked", "x", 99])
    raised = ask(one, *transfer, idempotency_key="poor")
    assert (raised.status_code, raised.json()["error"]["code"]) == (422, "method_raised")
    again = ask(other, *transfer, idempotency_key="poor")
    assert again.json() == raised.json()
    group, client, _, expiration = request_id.split("/")
    never = f"{group}/{client}x/1/{expiration}"
    assert ask(one, "POST", "/v1/outcomes", {"request_id": never}).json()["outcome"] == "never_runs"


def test_one_key_is_one_call(whole: Domain) -> None:
    """If the key is used for another call, the host that has seen the first refuses it."""
    url = next(iter(doors(whole).values()))
    path = f"/v1/groups/ledger/calls/deposit{PATIENTLY}"
    assert ask(url, "POST", path, ["keyed", 1], idempotency_key="one").status_code == 200
    reused = ask(url, "POST", path, ["keyed", 2], idempotency_key="one")
    assert (reused.status_code, reused.json()["error"]["code"]) == (422, "key_reused")
    balance = ("POST", f"/v1/groups/ledger/calls/balance{PATIENTLY}", ["keyed"])
    assert ask(url, *balance).json()["result"] == 1


Event = tuple[int | None, str, Any]


def events_since(url: str, last: int | None, count: int, kind: str, group: int | None = None) -> list[Event]:
    """Return the first *count* events of that kind, about that group, of a stream: id, kind, data."""
    headers = {} if last is None else {"last-event-id": str(last)}
    found: list[Event] = []
    with httpx.stream("GET", url + "/v1/events", headers=headers, timeout=WAIT_S, trust_env=False) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in stream.iter_lines():
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                data = msgspec.json.decode(fields["data"])
                if fields["event"] == kind and data.get("group") == group:
                    found.append((int(fields["id"]) if "id" in fields else None, kind, data))
                fields = {}
            if len(found) == count:
                break
    return found


def test_events_can_be_taken_up_at_another_host(whole: Domain) -> None:
    """Every view and session change arrives once, in the order of the authority's revisions."""
    one, other = list(doors(whole).values())[:2]
    ((begun, _, _),) = events_since(one, None, 1, "begin")
    group = create(one, "watched", "watched")
    until("three are in sync", lambda: len(ask(one, "GET", "/v1/groups/watched").json()["in_sync"]) == 3)
    seen = events_since(other, begun, 3, "view", group)
    assert [each[2]["epoch"] for each in seen] == [1, 2, 3]
    assert all(each[2]["name"] == "watched" for each in seen)
    ids = [each[0] for each in seen if each[0] is not None]
    assert len(ids) == 3  # each is the last of its revision
    assert ids == sorted(ids)
    assert events_since(one, ids[0], 2, "view", group) == seen[1:]
    assert ask(one, "DELETE", "/v1/groups/watched").status_code == 200


def test_metrics_tell_what_an_operator_alerts_on(whole: Domain) -> None:
    """They are in the text format of Prometheus, read by its own parser."""
    from prometheus_client.parser import text_string_to_metric_families

    url = doors(whole)["host1"]

    def scraped() -> dict[tuple[str, tuple[str, ...]], float] | None:
        samples = {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(ask(url, "GET", "/metrics").text)
            for sample in family.samples
        }
        is_whole = samples.get(("holdfast_group_in_sync", ("ledger",))) == 3
        return samples if is_whole and samples["holdfast_group_committed", ("ledger",)] > 0 else None

    deposit = ("POST", f"/v1/groups/ledger/calls/deposit{PATIENTLY}", ["metrics", 1])
    assert ask(url, *deposit).status_code == 200
    samples = until("three are in sync, and host1 knows of the deposit", scraped)
    assert samples["holdfast_in_session", ()] == 1
    assert samples["holdfast_hosts", ()] == 3
    assert samples["holdfast_log_bytes", ()] > 0
    assert samples["holdfast_groups_short", ()] == 0
    assert samples["holdfast_loop_late_seconds_count", ()] > 0
    assert {labels for name, labels in samples if name == "holdfast_peer_silent"} == {("host2",), ("host3",)}


SCHEMATHESIS = """
import gc, runpy
gc.disable()  # CPython 3.11 takes finalizers within the parser for a mistake of its own
runpy.run_module("schemathesis.cli", run_name="__main__")
"""
EXPECTED = """
[checks.not_a_server_error]
expected-statuses = ["2xx", 307, "4xx", 503, 504]
"""
"""What another host decides, what nobody can serve now, and what may have been done are not mistakes of the
host."""

STREAMS = "^/v1/(events|faults/stream)$"
"""Streams do not end."""


def test_nothing_that_fits_the_description_breaks_it(
    whole: Domain, tmp_path: Path, rounds: Callable[..., int]
) -> None:
    """schemathesis runs against the coordinating host: there is no 500, and every answer has the described
    form."""
    url = until("somebody coordinates", lambda: coordinators_door(whole))
    (tmp_path / "schemathesis.toml").write_text(EXPECTED, encoding="ascii")
    command = [
        *(sys.executable, "-c", SCHEMATHESIS, "run", f"{url}/openapi.json", "--no-color", "--workers", "1"),
        *("--checks", "not_a_server_error,content_type_conformance,response_schema_conformance"),
        *("--max-examples", str(rounds(short=3, long=200)), "--seed", "1", "--request-timeout", "90"),
        *("--exclude-path-regex", STREAMS, "--phases", "coverage,fuzzing"),
    ]
    limit_s = rounds(short=300, long=LONG_S - 60)
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=limit_s, check=False, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    for host in doors(whole):
        until(f"{host} takes members", partial(let_take_members, whole, host))  # it may have drained any host
    create(url, "fresh", "fresh")  # it may have deleted any other
    deposit = ("POST", f"/v1/groups/fresh/calls/deposit{PATIENTLY}", ["a", 1])
    assert until("it is called", lambda: _result(url, *deposit)) == 1
