"""Endpoints that call groups' methods and report the outcomes of calls."""

from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from holdfast.calling.config import CallPolicy
from holdfast.execution.sends import LIST_QUERY
from holdfast.model.calls import CallOutcomeUnknown, RequestId
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import SECOND
from holdfast.model.outcome import CallPoisoned, CallRefused, MethodRaised
from holdfast.web.about_groups import NAME_SCHEMA, require_sight
from holdfast.web.access import forbidden
from holdfast.web.calls import Arguments, as_json
from holdfast.web.context import WebContext
from holdfast.web.endpoint import Asked, Endpoint, Parameter, Reply
from holdfast.web.problems import NEVER_RUNS, refuse
from holdfast.web.request import KEY, TRACEPARENT, key_of, trace_of
from holdfast.web.settings import DURATION_S_DEFAULT, DURATION_S_MAX

OWN: Final = (
    "Ask the host through which the call was made, before it restarts. A call under an Idempotency-Key can "
    "be asked for at every host."
)


class Returned(Struct, frozen=True, kw_only=True):
    """What the method returned."""

    result: Any
    request_id: str | None = None
    """The id of a call that was made under a key."""


class AskOutcome(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: str


class Outcome(Struct, frozen=True, kw_only=True):
    """The final outcome of a request."""

    outcome: Literal["returned", "raised", "poisoned", "refused", "never_runs", "forgotten"]
    """*never_runs*: it was not executed and never will be, or it was a query, which leaves no outcome;
    *forgotten*: the group no longer knows."""
    result: Any = None
    type: str | None = None
    text: str | None = None


async def call(site: WebContext, asked: Asked) -> Reply:
    group, method, who = asked.path["name"], asked.path["method"], asked.caller
    if not who.may_call(group, method):
        raise forbidden(f"{who.name} may not call that method of that group")
    arguments: Arguments = asked.body
    policy, key = _policy(asked.query.get("duration_s")), key_of(asked.headers)
    calls = site.inside.calls
    trace = trace_of(asked.headers)
    if key is None:
        made = await calls.call(who.name, group, method, arguments, policy, trace)
        return Reply(Returned(result=as_json(made)))
    result, request = await calls.call_keyed(who.name, key, group, method, arguments, policy, trace)
    return Reply(Returned(result=as_json(result), request_id=str(request)))


class WaitingSend(Struct, frozen=True, kw_only=True):
    """A call that is still to be sent."""

    number: int
    group: str
    method: str
    expires_ns: int


class FailedSend(Struct, frozen=True, kw_only=True):
    """A call that failed."""

    number: int
    group: str
    method: str
    code: str
    text: str
    ended_ns: int


class SendList(Struct, frozen=True, kw_only=True):
    """The calls that a group sends without waiting for them; of the waiting ones, the first hundred."""

    waiting: tuple[WaitingSend, ...]
    waiting_count: int
    bytes: int
    failed: tuple[FailedSend, ...]
    failures: int


async def list_sends(site: WebContext, asked: Asked) -> Reply:
    name = asked.path["name"]
    require_sight(asked.caller, name)
    policy, trace = _policy(None), trace_of(asked.headers)
    found = await site.inside.calls.call(asked.caller.name, name, LIST_QUERY, [], policy, trace)
    return Reply(msgspec.convert(found, SendList))


async def ask_outcome(site: WebContext, asked: Asked) -> Reply:
    about: AskOutcome = asked.body
    request, calls = RequestId.parse(about.request_id), site.inside.calls
    name = calls.group_of(request)
    if not asked.caller.has("admin") and (name is None or not asked.caller.may_see(name)):
        raise forbidden(f"{asked.caller.name} may not ask about that group")
    if not asked.caller.has("admin") and not calls.is_told(asked.caller.name, request):
        text = f"{asked.caller.name} did not make that call, as far as is known here"
        raise refuse(403, "forbidden", text, OWN)
    try:
        return Reply(Outcome(outcome="returned", result=as_json(await calls.outcome(request))))
    except MethodRaised as error:
        return Reply(Outcome(outcome="raised", type=error.type_name, text=error.text))
    except CallPoisoned as error:
        return Reply(Outcome(outcome="poisoned", text=str(error)))
    except CallRefused as error:
        is_never = error.reason == NEVER_RUNS
        return Reply(Outcome(outcome="never_runs" if is_never else "refused", text=str(error)))
    except CallOutcomeUnknown as error:
        if error.request_id != request:  # the question itself was not answered
            raise Unavailable(f"nobody could say what became of {request}") from None
        return Reply(Outcome(outcome="forgotten"))


def _policy(duration_s: str | None) -> CallPolicy:
    try:
        seconds = (
            DURATION_S_DEFAULT if duration_s is None else msgspec.convert(duration_s, float, strict=False)
        )
    except msgspec.ValidationError:
        seconds = 0.0
    if not 0.01 <= seconds <= DURATION_S_MAX:
        raise InvalidRequest(f"duration_s must be a number from 0.01 to {DURATION_S_MAX:g}")
    return CallPolicy(duration_ns=round(seconds * SECOND))


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/groups/{name}/calls/{method}",
        "call",
        "Call a method of a group",
        "The body is a JSON array of its arguments, or an object of named ones. It is sent to whoever serves "
        "the group until it is answered or its duration is over. With an Idempotency-Key it is executed "
        "once, however often and through whichever host it is repeated: a repetition gets the first outcome.",
        call,
        Returned,
        "client",
        body=Arguments,
        body_default=b"[]",
        parameters=(
            KEY,
            TRACEPARENT,
            Parameter(
                "duration_s",
                "query",
                {"type": "number", "minimum": 0.01, "maximum": DURATION_S_MAX},
                f"How long it is tried; {DURATION_S_DEFAULT:g} unless said.",
            ),
        ),
        path_schemas={**NAME_SCHEMA, "method": {"type": "string", "minLength": 1, "maxLength": 200}},
    ),
    Endpoint(
        "GET",
        "/v1/groups/{name}/sends",
        "list_sends",
        "What a group has still to send",
        "Calls that its methods sent and wait for nobody with, and the latest that came to nothing.",
        list_sends,
        SendList,
        "client",
        path_schemas=NAME_SCHEMA,
    ),
    Endpoint(
        "POST",
        "/v1/outcomes",
        "ask_outcome",
        "What became of a call",
        "Asking settles it: a request that has not run by then never will.",
        ask_outcome,
        Outcome,
        "client",
        body=AskOutcome,
    ),
)
