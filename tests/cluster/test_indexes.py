"""Indexes of a domain of real hosts: the paths of the index coordinator's source, and the command line."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole

pytestmark = pytest.mark.cluster

ASKED = {"Name": "by_city", "Bucket": "people", "Using": "tree", "OnExprList": ["/city"]}


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("indexes") / "d") as made:
        made.wait("every host hears every other", is_whole)
        yield made


@pytest.fixture
def plane(domain: Domain) -> "Plane":
    plane = Plane(domain)
    plane.until("somebody coordinates", lambda: plane.coordination()["cluster"]["masterAddr"] != "")
    return plane


class Plane:
    """The control plane of a domain, as a client sees it over HTTP."""

    def __init__(self, domain: Domain) -> None:
        hosts = domain.status()["hosts"]
        self.doors: dict[str, str] = {
            host["report"]["address"]: host["report"]["details"]["http"] for host in hosts
        }
        self.names = {host["report"]["details"]["http"]: host["id"] for host in hosts}

    def ask(self, url: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        if body is None:
            return httpx.get(url + path, timeout=240, trust_env=False)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["content-type"] = "application/json"
        content = msgspec.json.encode(body)
        return httpx.post(url + path, content=content, headers=named, timeout=240, trust_env=False)

    def coordination(self, url: str = "") -> dict[str, Any]:
        """Return the coordination as the host at *url* knows it, or any that answers."""
        for each in (url,) if url else self.doors.values():
            try:
                found: dict[str, Any] = self.ask(each, "/v1/coordinator").json()
            except httpx.TransportError:
                continue
            return found
        raise KeyError(url)

    @property
    def coordinator(self) -> str:
        """Return the coordinator's HTTP address, as the authority names it."""
        return self.doors[self.coordination()["cluster"]["masterAddr"]]

    def state(self, statement: str, *, key: str = "", **fields: object) -> httpx.Response:
        """Send a statement as a client does: to the coordinator, in its term, until it is answered."""
        headers = {"idempotency_key": key} if key else {}
        found: list[httpx.Response] = []

        def is_answered() -> bool:
            url = self.coordinator
            term = self.coordination(url)["current_term"]
            body = {"command": statement, "current_term": term, **fields}
            found.append(self.ask(url, "/cluster/index", body, **headers))
            return found[-1].status_code not in (307, 503, 504) and found[-1].json()["status"] != "STALE_TERM"

        self.until(f"an answer to {statement}", is_answered)
        answered = found[-1].json()
        assert {"current_term", "cas", "status"} <= set(answered), "in every answer (N-5)"
        return found[-1]

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except (KeyError, httpx.TransportError):
                pass  # nobody is elected at this moment, or a host has just died
            time.sleep(0.05)
        raise AssertionError(f"did not happen within {WAIT_S:g} s: {what}")


@pytest.mark.covers(
    "IM-6", "IM-8", "IM-102", "IM-113", "IM-114", "IM-115", "IM-116", "IM-117", "IM-118", "IM-119"
)
def test_statements_in_the_words_of_the_source(plane: Plane) -> None:
    """A client asks who coordinates and posts to that host: an index is created with a number, listed, and
    dropped; impossible requests are refused by name. Every answer has the term, the CAS and a status."""
    made = plane.state("CreateIndex", indexinfo=ASKED, key="statements-1")
    assert made.status_code == 200
    assert made.json()["status"] == "success"
    whole = made.json()["indexinfo"]
    number = whole["id"]
    assert whole == {**ASKED, "id": number, "IsPrimary": False, "Exprtype": "json-pointer", "Active": False}
    again = plane.state("CreateIndex", indexinfo=ASKED, key="statements-1").json()
    assert again["indexinfo"]["id"] == number, "the same request is done once"
    used = plane.state("CreateIndex", indexinfo=ASKED)
    assert (used.status_code, used.json()["status"]) == (409, "INDEX_EXISTS")
    other = plane.state("CreateIndex", indexinfo={**ASKED, "Name": "other"}, key="statements-2").json()
    assert other["indexinfo"]["id"] > number
    assert other["cas"] > made.json()["cas"]

    listed = plane.state("ListIndex", indexids=[other["indexinfo"]["id"], number]).json()
    assert [each["Name"] for each in listed["indexinfo"]] == ["other", "by_city"]
    assert plane.state("ListIndex", indexids=[]).json()["indexinfo"] == [], "none is built, so none is active"
    missing = plane.state("ListIndex", indexids=[number, 99_999])
    assert (missing.status_code, missing.json()["status"]) == (404, "INDEX_NOT_FOUND")
    assert "99999" in missing.json()["error"]["text"]
    assert plane.state("DropIndex", indexid=[number, 99_999]).status_code == 404
    assert len(plane.state("ListIndex", indexids=[number]).json()["indexinfo"]) == 1, "nothing was dropped"
    gone = plane.state("DropIndex", indexid=[number, other["indexinfo"]["id"]], key="statements-3")
    assert (gone.status_code, gone.json()["status"]) == (200, "success")
    assert plane.state("ListIndex", indexids=[number]).status_code == 404


def are_those_who_follow_named(domain: Domain) -> bool:
    """Whether the coordinator and both replicas are named by their current addresses."""
    plane = Plane(domain)
    for url in plane.doors.values():
        cluster = plane.coordination(url)["cluster"]
        named = [cluster["masterAddr"], *cluster["replicas"]]
        if cluster["masterAddr"] == "" or sorted(named) != sorted(plane.doors):
            return False
    return True


@pytest.mark.covers("IM-58")
def test_a_client_is_told_who_coordinates_and_who_follows(domain: Domain, plane: Plane) -> None:
    """Every host names them by their current addresses, not by those before the coordinator died. Nothing is
    claimed about the row's `nodes`: no host has the role of an indexer yet."""
    plane.until("everybody is named", lambda: are_those_who_follow_named(domain))
    before = plane.coordination()["cluster"]
    os.kill(domain.host(plane.names[plane.doors[before["masterAddr"]]])["pid"], signal.SIGKILL)
    known = ("", before["masterAddr"])
    plane.until("another coordinates", lambda: plane.coordination()["cluster"]["masterAddr"] not in known)
    domain.wait("the killed host is back", is_whole)
    plane.until("everybody is named again", lambda: are_those_who_follow_named(domain))


@pytest.mark.covers("IM-137", "IM-73", "IM-142", "IM-7")
def test_who_does_not_coordinate_names_who_does(plane: Plane) -> None:
    """The answer is 307 to the coordinator's address, which it contains; in an older term nothing is done."""

    def is_named() -> bool:
        found = plane.coordination()
        master = plane.doors[found["cluster"]["masterAddr"]]
        for url in (each for each in plane.doors.values() if each != master):
            body = {"command": "ListIndex", "current_term": found["current_term"], "indexids": []}
            answer = plane.ask(url, "/cluster/index", body)
            if answer.status_code != 307:
                return False  # the roles are just changing
            assert answer.headers["location"] == f"{answer.json()['master']}/cluster/index"
            assert (answer.json()["status"], answer.json()["master"]) == ("NOT_MASTER", master)
        return True

    plane.until("the replicas name the coordinator", is_named)
    stale = {"command": "CreateIndex", "current_term": 0, "indexinfo": {**ASKED, "Name": "stale"}}
    answer = plane.ask(plane.coordinator, "/cluster/index", stale)
    assert (answer.status_code, answer.json()["status"]) == (409, "STALE_TERM")
    assert answer.json()["current_term"] >= 1


@pytest.mark.covers("IM-103", "IM-104", "IM-107", "IM-108", "IM-109", "IM-110", "IM-111", "IM-112")
def test_the_calls_of_the_cluster_manager(plane: Plane) -> None:
    """Heartbeats are answered in any role; a host that is told to finds its role anew, and so does every host
    when a new term is announced; a past term is refused."""

    def roles() -> list[str]:
        return sorted(plane.coordination(url)["role"] for url in plane.doors.values())

    def are_found() -> bool:
        return roles() == ["coordinator", "replica", "replica"]

    plane.until("everybody has a role", are_found)
    for url in plane.doors.values():
        before = plane.coordination(url)["current_term"]
        for asked in (before, 0):  # the answer is the host's own term, whatever it was asked with
            beat = plane.ask(url, "/cluster/heartbeat", {"current_term": asked})
            assert beat.status_code == 200
            assert set(beat.json()) == {"current_term", "cas"}
            assert before <= beat.json()["current_term"] <= plane.coordination(url)["current_term"]
    term, url = plane.coordination()["current_term"], plane.coordinator
    told = plane.ask(url, "/cluster/bootstrap", {"current_term": term})
    if told.json()["status"] != "STALE_TERM":  # it was just elected again
        assert (told.status_code, told.json()["status"]) == (200, "success")
    assert plane.ask(url, "/cluster/heartbeat", {"current_term": 0}).status_code == 200
    plane.until(
        "a coordinator that gave up is not resumed", lambda: plane.coordination()["current_term"] > term
    )
    plane.until("everybody has a role again", are_found)
    term = plane.coordination()["current_term"]
    for url in plane.doors.values():
        news = {"current_term": plane.coordination(url)["current_term"] + 1, "master": "somebody:1"}
        answer = plane.ask(url, "/cluster/newmaster", news)
        assert (answer.status_code, answer.json()["status"]) == (200, "success")
        assert answer.json()["current_term"] < news["current_term"], "only the authority begins a term"
    plane.until(
        "the coordinator has found its role anew, too", lambda: plane.coordination()["current_term"] > term
    )
    plane.until("everybody has a role once more", are_found)
    old = plane.ask(plane.coordinator, "/cluster/newmaster", {"current_term": 0})
    assert (old.status_code, old.json()["status"]) == (409, "STALE_TERM")


@pytest.mark.covers("IM-1", "IM-125", "IM-126", "IM-13")
def test_statements_go_on_while_the_coordinator_is_killed(domain: Domain, plane: Plane) -> None:
    """Its host is killed -9 in the middle of statements that a client repeats until they are answered: each
    is done once, its agent restarts it, and the authority knows the outcome of each update."""
    numbers = []
    for number in range(6):
        if number in (1, 4):
            os.kill(domain.host(plane.names[plane.coordinator])["pid"], signal.SIGKILL)
        made = plane.state("CreateIndex", indexinfo={**ASKED, "Name": f"k{number}"}, key=f"kill-{number}")
        assert made.status_code == 200, made.text
        numbers.append(made.json()["indexinfo"]["id"])
    listed = plane.state("ListIndex", indexids=numbers).json()["indexinfo"]
    assert [each["Name"] for each in listed] == [f"k{number}" for number in range(6)]
    domain.wait("the killed hosts are back", is_whole)
    found = plane.ask(plane.coordinator, "/v1/transactions?limit=1000").json()["transactions"]
    assert {each["status"] for each in found} <= {"initial", "commit", "rollback"}
    assert all(len(each["participants"]) >= 1 for each in found)
    assert sum(each["status"] == "commit" for each in found) >= len(numbers)
    assert plane.state("DropIndex", indexid=numbers, key="kill-all").status_code == 200


def index(domain: Domain, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*HOLDFAST, "index", *words, "--dir", str(domain.directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)


def test_people_create_list_and_drop_indexes(domain: Domain, plane: Plane) -> None:
    """The command line and HTTP give the same; the transactions show the outcome of each update."""
    made = msgspec.json.decode(
        index(domain, "create", "by_age", "/age", "--bucket", "dogs", "--output", "json").stdout
    )
    assert (made["name"], made["partitions"], made["replicas"], len(made["hosts"])) == ("by_age", 8, 1, 3)
    plane.until(
        "every host shows it",
        lambda: all(made in plane.ask(url, "/v1/indexes").json()["indexes"] for url in plane.doors.values()),
    )
    new = {"name": "by_age", "bucket": "cats", "using": "tree", "expressions": ["/age"], "replicas": 2}
    url = next(iter(plane.doors.values()))
    created = plane.ask(url, "/v1/indexes", new, idempotency_key="people-1")
    assert created.status_code == 201, created.text
    assert plane.ask(url, "/v1/indexes", new).json()["error"]["code"] == "index_exists"
    shown = index(domain, "list").stdout
    assert "cats" in shown
    assert "dogs" in shown
    assert index(domain, "drop", str(made["id"])).returncode == 0
    assert index(domain, "drop", str(made["id"])).returncode == 2
    dropped = httpx.delete(f"{url}/v1/indexes/{created.json()['id']}", timeout=240, trust_env=False)
    assert dropped.status_code == 200
    assert httpx.delete(f"{url}/v1/indexes/{created.json()['id']}", trust_env=False).status_code == 404
    found = msgspec.json.decode(domain.run("transactions", "--output", "json").stdout)
    assert [each["cas"] for each in found["transactions"]] == sorted(
        each["cas"] for each in found["transactions"]
    )
    assert {each["status"] for each in found["transactions"]} <= {"commit", "rollback"}
    assert plane.ask(url, "/v1/transactions?limit=1").json()["transactions"] == found["transactions"][-1:]


def test_too_many_copies_for_the_hosts_there_are(domain: Domain) -> None:
    """Four copies on three hosts are refused, and nothing is created."""
    refused = index(domain, "create", "wide", "/x", "--bucket", "b", "--replicas", "3")
    assert refused.returncode == 1
    assert "4 copies of a partition need as many hosts" in refused.stderr
    assert "wide" not in index(domain, "list").stdout
