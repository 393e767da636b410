"""The HTTP application, without a host behind it: what is refused, in which form, and what is logged."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import structlog
from starlette.types import ASGIApp

from holdfast.model.calls import CallOutcomeUnknown, RequestId
from holdfast.model.errors import HoldfastError, NoSuchGroup, Overloaded, Unavailable
from holdfast.model.ids import ClientId, GroupId
from holdfast.model.outcome import CallRefused, MethodRaised
from holdfast.web import app as web_app
from holdfast.web.access import AccessPolicy
from holdfast.web.app import make_app
from holdfast.web.context import WebContext
from holdfast.web.coordinator import CAS, TERM, CoordinatorRedirect, Elsewhere, Here, Nobody, NoCoordinator
from holdfast.web.door import ENDPOINTS
from holdfast.web.endpoint import Asked, Endpoint, Reply
from holdfast.web.metrics import Metrics
from holdfast.web.settings import BODY_BYTES_MAX, HttpSettings

URL = "http://127.0.0.1"


class Led:
    """A coordinator that the test chooses."""

    def __init__(self, leader: Here | Elsewhere | Nobody) -> None:
        self._leader = leader

    def leader(self) -> Here | Elsewhere | Nobody:
        return self._leader

    def headers(self) -> dict[str, str]:
        return {TERM: "3", CAS: "7"}


def made(
    *endpoints: Endpoint, settings: HttpSettings | None = None, leadership: CoordinatorRedirect | None = None
) -> ASGIApp:
    policy = AccessPolicy(settings or HttpSettings(), "main", lambda *_: os.geteuid())
    site = WebContext(policy, Metrics(), leadership or NoCoordinator())
    return make_app(site, endpoints or ENDPOINTS)


def asked(app: ASGIApp, method: str, path: str, **options: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
            return await client.request(method, path, **options)

    return asyncio.run(ask())


def code_of(response: httpx.Response) -> str:
    """The code of a problem, which must have the standard form."""
    assert response.headers["content-type"] == "application/json"
    problem = response.json()["error"]
    assert problem["text"] != ""
    assert problem["advice"] != ""
    code: str = problem["code"]
    return code


async def say(site: WebContext, asked: Asked) -> Reply:
    return Reply({"path": dict(asked.path), "body": asked.body})


def endpoint(handler: Any = say, **changes: Any) -> Endpoint:
    options: dict[str, Any] = {"grade": "admin", **changes}
    return Endpoint("POST", "/x/{name}", "x", "X", "X.", handler, None, **options)


def raising(error: BaseException) -> Callable[[WebContext, Asked], Any]:
    async def handler(site: WebContext, asked: Asked) -> Reply:
        raise error

    return handler


def test_a_host_that_starts_says_so_and_does_nothing() -> None:
    """The host answers 503 with Retry-After until it serves; the API's description can be read at once."""
    for method, path in [("GET", "/healthz"), ("GET", "/v1/groups"), ("DELETE", "/v1/groups/ledger")]:
        response = asked(made(), method, path)
        assert (response.status_code, code_of(response)) == (503, "starting")
        assert response.headers["retry-after"] == "1"
    assert asked(made(), "GET", "/openapi.json").json()["openapi"] == "3.1.0"
    assert "<h1>Holdfast, over HTTP</h1>" in asked(made(), "GET", "/docs").text


def test_every_endpoint_is_described() -> None:
    """Programs and people find all of them; the page needs nothing from elsewhere."""
    described = asked(made(), "GET", "/openapi.json").json()
    page = asked(made(), "GET", "/docs")
    for each in ENDPOINTS:
        operation = described["paths"][each.path][each.method.lower()]
        assert operation["operationId"] == each.name
        assert {"default", str(each.status)} == set(operation["responses"])
        assert f"<code>{each.path}</code>" in page.text
    assert "src=" not in page.text
    assert "http://" not in page.text + page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "no_such_path"),
        ("GET", "/v1/groups/", 404, "no_such_path"),
        ("GET", "/v1/groups/a/b/c", 404, "no_such_path"),
        ("PUT", "/v1/groups/a", 405, "no_such_method"),
        ("TRACE", "/v1/groups/a", 405, "no_such_method"),
        ("GET", "/v1/groups/%ff", 400, "bad_path"),
        ("GET", "/v1/groups/a?" + "x" * 3000, 414, "target_too_long"),
    ],
)
def test_what_is_not_there_is_told_in_one_form(method: str, path: str, status: int, code: str) -> None:
    """The form is a code for programs, a text, and advice."""
    response = asked(made(), method, path)
    assert (response.status_code, code_of(response)) == (status, code)
    if status == 405:
        assert response.headers["allow"] == "GET, DELETE"


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"[1]", {"content-type": "text/plain"}, 415, "not_json"),
        (b"[1]", {}, 415, "not_json"),
        (b"", {"content-type": "application/json"}, 400, "bad_body"),
        (b"[1", {"content-type": "application/json"}, 400, "bad_body"),
        (b'"x"', {"content-type": "application/json"}, 400, "bad_body"),
        (b'["\xff"]', {"content-type": "application/json"}, 400, "bad_body"),
        (b"[" * 200_000, {"content-type": "application/json"}, 400, "bad_body"),
        (b"[" + b"1," * BODY_BYTES_MAX + b"1]", {"content-type": "application/json"}, 413, "body_too_long"),
    ],
)
def test_a_body_that_is_not_taken_is_refused(
    body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    """The body is of another kind, broken, too deep or too long."""
    response = asked(made(endpoint(body=list[Any])), "POST", "/x/y", content=body, headers=headers)
    assert (response.status_code, code_of(response)) == (status, code)


def test_a_body_that_says_no_length_is_counted() -> None:
    """Chunks are read up to the limit and no further."""
    sent = 0

    async def chunks() -> Any:
        nonlocal sent
        while True:
            sent += 1 << 16
            yield b" " * (1 << 16)

    headers = {"content-type": "application/json"}
    response = asked(made(endpoint(body=list[Any])), "POST", "/x/y", content=chunks(), headers=headers)
    assert (response.status_code, code_of(response)) == (413, "body_too_long")
    assert sent <= BODY_BYTES_MAX + (2 << 16)


def test_a_name_may_hold_anything_that_is_text() -> None:
    """This includes encoded slashes."""
    response = asked(made(endpoint()), "POST", "/x/a%2Fb%20%C3%A9%25")
    assert response.json()["path"] == {"name": "a/b é%"}


REQUEST = RequestId(GroupId(1), ClientId("c"), 1, 2)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NoSuchGroup("x"), 404, "no_such_group"),
        (Unavailable("x"), 503, "unavailable"),
        (Overloaded("x"), 503, "overloaded"),
        (CallOutcomeUnknown(REQUEST, waited_s=1), 504, "outcome_unknown"),
        (MethodRaised("ValueError", "no such account"), 422, "method_raised"),
        (CallRefused("never_runs", "x"), 409, "never_runs"),
        (CallRefused("bad_call", "x"), 400, "bad_call"),
    ],
)
def test_errors_say_what_the_caller_may_do_next(error: HoldfastError, status: int, code: str) -> None:
    """Each class of errors has its status; a call that may have run is never reported as not executed."""
    response = asked(made(endpoint(raising(error))), "POST", "/x/y")
    assert (response.status_code, code_of(response)) == (status, code)
    problem = response.json()["error"]
    assert problem.get("request_id") == (str(REQUEST) if status == 504 else None)
    assert problem.get("type") == ("ValueError" if code == "method_raised" else None)


def test_a_mistake_of_ours_leaks_nothing() -> None:
    """A 500 says that there was an error, and the log says which."""
    with structlog.testing.capture_logs() as logs:
        response = asked(made(endpoint(raising(ZeroDivisionError("secret")))), "POST", "/x/y")
    assert (response.status_code, code_of(response)) == (500, "internal")
    assert "secret" not in response.text
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["a request failed"]


def test_actions_of_admins_are_written_down_done_or_refused() -> None:
    """The log says who did what, to what, and how it ended; other requests are not logged."""
    settings = HttpSettings(loopback="reader")
    with structlog.testing.capture_logs() as logs:
        assert asked(made(endpoint(is_audited=True)), "POST", "/x/one").status_code == 200
        assert asked(made(endpoint(is_audited=True), settings=settings), "POST", "/x/two").status_code == 403
        assert asked(made(endpoint(raising(Unavailable("x")), is_audited=True)), "POST", "/x/three").is_error
        assert asked(made(endpoint()), "POST", "/x/four").status_code == 200
    audited = [(each["action"], each["by"], each["name"], each["how"]) for each in logs]
    assert audited == [
        ("x", "loopback", "one", "done"),
        ("x", "loopback", "two", "forbidden"),
        ("x", "loopback", "three", "unavailable"),
    ]


def test_what_is_not_allowed_is_refused_before_it_is_read() -> None:
    """An unknown caller learns nothing: not whether a group exists, nor whether the host serves."""
    settings = HttpSettings(loopback="nobody")
    for each in ENDPOINTS:
        response = asked(made(settings=settings), each.method, each.path.replace("{", "").replace("}", ""))
        assert (response.status_code == 401) == (each.grade is not None), each.path
        if each.grade is not None:
            assert response.headers["www-authenticate"] == "Bearer"
            assert code_of(response) == "unauthorized"


def test_only_so_many_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next is told to come again; once others have gone, it is admitted."""
    monkeypatch.setattr(web_app, "REQUESTS_MAX", 2)
    inside, hold = asyncio.Semaphore(0), asyncio.Event()

    async def wait(site: WebContext, asked: Asked) -> Reply:
        inside.release()
        await hold.wait()
        return Reply({})

    async def work() -> list[int]:
        transport = httpx.ASGITransport(made(endpoint(wait)))
        async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
            first = [asyncio.create_task(client.post("/x/y")) for _ in range(2)]
            for _ in first:
                await inside.acquire()
            refused = await client.post("/x/y")
            hold.set()
            return [refused.status_code, *[(await task).status_code for task in first]]

    assert asyncio.run(work()) == [503, 200, 200]


def test_what_only_the_coordinator_can_answer_is_sent_there() -> None:
    """307 with the same path and query at its door, or 503 with Retry-After while there is none."""
    led = endpoint(is_led=True)
    response = asked(made(led, leadership=Led(Here())), "POST", "/x/y")
    assert (response.status_code, response.headers[TERM], response.headers[CAS]) == (200, "3", "7")
    response = asked(made(led, leadership=Led(Elsewhere("http://h:1"))), "POST", "/x/a%2Fb?c=d")
    assert (response.status_code, response.headers["location"]) == (307, "http://h:1/x/a%2Fb?c=d")
    assert (response.headers[TERM], response.headers[CAS]) == ("3", "7")
    assert code_of(response) == "not_coordinator"
    response = asked(made(led), "POST", "/x/y")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert code_of(response) == "no_coordinator"
