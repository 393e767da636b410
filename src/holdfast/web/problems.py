"""The one form of every error: a code for programs, a text, and advice."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.execution.interface import BadCall
from holdfast.model.admin.groups import OrderRefused
from holdfast.model.calls import CallOutcomeUnknown
from holdfast.model.errors import (
    GroupExists,
    HoldfastError,
    InvalidRequest,
    NoSuchGroup,
    OutcomeUnknown,
    Overloaded,
    Rejected,
    Unavailable,
)
from holdfast.model.outcome import CallPoisoned, CallRefused, MethodRaised, NestedOutcomeUnknown
from holdfast.web.settings import RETRY_AFTER_S, TEXT_CHARACTERS_MAX

AGAIN: Final = "Try again in a moment, here or at another host."
UNKNOWN: Final = (
    "It may have been executed. Repeat it with the same Idempotency-Key, or ask POST /v1/outcomes for the "
    "request id: do not send it as a new request."
)
NEVER_RUNS: Final = "never_runs"
NOT_FOUND: Final = ("ObjectGroupNotFound", "MemberNotFound", "ObjectNotFound", "InterfaceNotFound")
IN_THE_WAY: Final = ("MemberAlreadyPresent", "ObjectNotAdded", "PrimaryNotSet")
"""Conflicts with the present state, which may change."""
NEVER: Final = "Change the request: as it is, it can never succeed."
_BY_CODE: Final = {
    "index_not_found": (404, "GET /v1/indexes lists the indexes."),
    "index_exists": (409, "Use another name, or the index that is there."),
}
"""For changes of the domain's state: another host may have refused them, and only its code is known."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong. This interface changes only by additions."""

    code: str
    """The code of the problem, for programs; a code is never renamed."""
    text: str
    advice: str
    """What to do instead."""
    type: str = ""
    """The type of the exception that a method raised."""
    request_id: str = ""
    """The id of the call whose outcome is unknown."""
    exception: str = ""
    """The corresponding exception of Fault Tolerant CORBA, if there is one."""
    about: dict[str, Any] = {}
    """That exception's members: what was wrong, by name."""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    error: Problem


class Refusal(Exception):
    """Raised when a request is answered with a problem."""

    def __init__(self, status: int, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status} {problem.code}: {problem.text}")
        self.status = status
        self.problem = problem
        self.headers = dict(headers or {})
        self.body: object = ErrorBody(error=problem)
        """The answer's body: the problem, with more around it if an endpoint has more to say."""


def refuse(status: int, code: str, text: str, advice: str, **headers: str) -> Refusal:
    """Build a refusal; underscores in the names of *headers* stand for dashes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Refusal(status, Problem(code=code, text=text[:TEXT_CHARACTERS_MAX], advice=advice), named)


def busy(text: str, code: str = Unavailable.code) -> Refusal:
    return refuse(503, code, text, AGAIN, retry_after=str(RETRY_AFTER_S))


def reused(what: str) -> Refusal:
    """The refusal for an Idempotency-Key that was used for *what* before, and now for something else."""
    text = f"this Idempotency-Key was used for {what}"
    return refuse(422, "key_reused", text, "Use a key for each order, and for each call.")


def refusal_of(error: HoldfastError) -> Refusal:
    """The HTTP refusal for *error*."""
    text = str(error)
    match error:
        case CallOutcomeUnknown():
            problem = Problem(code=error.code, text=text, advice=UNKNOWN, request_id=str(error.request_id))
            return Refusal(504, problem)
        case OutcomeUnknown() | NestedOutcomeUnknown():
            return refuse(504, error.code, text, "It may have been done: look before you order it again.")
        case MethodRaised(type_name=type_name):
            advice = "The method itself raised this; what it changed before stays changed."
            return Refusal(422, Problem(code=error.code, text=error.text, advice=advice, type=type_name))
        case CallPoisoned():
            return refuse(422, error.code, text, "Find out what ends the processes before you call it again.")
        case CallRefused(reason=reason) if reason == NEVER_RUNS:
            return refuse(409, NEVER_RUNS, text, "It was not executed. Use a new Idempotency-Key.")
        case CallRefused(reason=reason):
            return refuse(400, reason, text, "See `holdfast check` for the methods of the class.")
        case NoSuchGroup():
            return refuse(404, error.code, text, "GET /v1/groups lists the groups.")
        case GroupExists():
            return refuse(409, error.code, text, "Use another name, or the group that is there.")
        case BadCall():
            return refuse(400, error.code, text, "See `holdfast check` for the methods of the class.")
        case InvalidRequest():
            status, advice = _BY_CODE.get(error.code, (400, NEVER))
            return refuse(status, error.code, text, advice)
        case Overloaded() | Unavailable():
            return busy(text, error.code)
        case Rejected():
            return refuse(409, error.code, text, "It was not done: look at what has changed, and try again.")
        case _:
            return busy(text, error.code)


def refusal_of_order(refused: OrderRefused) -> Refusal:
    """The HTTP refusal for a refused order."""
    kinds = {kind.code: kind for kind in (NoSuchGroup, GroupExists, Unavailable, Overloaded, Rejected)}
    kind = kinds.get(refused.code, InvalidRequest if refused.is_final else Unavailable)
    refusal = refusal_of(kind(refused.text))
    if refused.exception in NOT_FOUND:
        refusal.status = 404
    elif refused.exception in IN_THE_WAY:
        refusal.status = 409
    status, advice = _BY_CODE.get(refused.code, (refusal.status, refusal.problem.advice))
    problem = msgspec.structs.replace(
        refusal.problem,
        code=refused.code,
        advice=advice,
        exception=refused.exception,
        about=msgspec.json.decode(refused.about, type=dict[str, Any]),
    )
    return Refusal(status, problem, refusal.headers)
