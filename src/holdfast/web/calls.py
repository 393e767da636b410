"""Makes calls for HTTP callers, and turns an ``Idempotency-Key`` into a request id so that each runs once.

The id is the same at every host, so a repeated key is one request, through whichever host it comes. A group
keeps a reply until its request's expiration, and every copy of a request must carry the same expiration
(FTC-93). A door remembers nothing, so both follow from the key and the group's time alone. Time is divided
into windows, at different offsets for each key; within a window a key is one id with one expiration. A key
that arrives soon after its window has ended may have been used in the previous one. Then the outcome of the
previous id is asked for first, which settles it (X3), and the new id is used only if the old one never ran. A
host whose time is behind then finds the old id settled or expired, and learns the group's time with the
refusal. So a key repeated within ``KEEP_S`` of its first use is exactly the same request; one repeated later
than ``WINDOW_S + KEEP_S`` is a new one; in between it depends on where the window ends.

*Without windows* (an expiration of now + KEEP_S): a second copy, sent just before the first one's reply is
forgotten and delayed on its way, would arrive as a fresh request with its own later expiration, and run.

These numbers are part of the ids: hosts that differed in them would not agree on what is a repetition.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import msgspec

from holdfast.admin.request_owners import is_of_door, key_client, may_use
from holdfast.calling.config import CallPolicy
from holdfast.calling.group_client import GroupClient as GroupCaller
from holdfast.client.domain import Domain
from holdfast.execution.interface import BadCall
from holdfast.execution.records import encode_arguments
from holdfast.groups.settings import is_self_kept
from holdfast.machine import MachineClock
from holdfast.model.calls import CallOutcomeUnknown, RequestId
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import SECOND, ClientId, GroupId
from holdfast.model.outcome import CallRefused
from holdfast.model.properties import Style
from holdfast.model.traceparent import Traceparent
from holdfast.node.gateway import HostContext
from holdfast.styles.by_name import style_named
from holdfast.web.problems import NEVER_RUNS, refuse, reused
from holdfast.web.settings import FINGERPRINTS_MAX

KEEP_S: Final = 1800
"""How long, at least, a repeated key is the same request."""
WINDOW_S: Final = 7200
"""A longer window makes members keep replies longer; a shorter one makes more calls ask about the previous
window (one in four, as it is)."""
SLACK_S: Final = 300
"""How much hosts may differ about the group's time, and a call may last, at the edges of a window."""
NUMBER: Final = 1
"""The only number of its client: each key is a separate client in the group's table of requests."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """The request ids that a key stands for at one moment of a group's time."""

    request: RequestId
    """The id to call under."""
    before: RequestId | None
    """The id that the previous window may have used, until it has expired; to be settled first."""
    after: RequestId | None
    """The id under which other hosts may already call it, since hosts differ a little about the time."""


def keyed(caller: str, group: GroupId, key: str, time_s: int) -> Keyed:
    """What *key* of *caller* stands for at *time_s* of the group's time."""
    digest = sha256("\0".join((caller, str(group), key)).encode()).hexdigest()
    offset_s = int(digest[:8], 16) % WINDOW_S
    window, into_s = divmod(time_s + offset_s, WINDOW_S)

    def in_window(window: int) -> RequestId:
        ends_s = (window + 1) * WINDOW_S - offset_s
        client = key_client(caller, digest[8:40], window)
        return RequestId(group, client, NUMBER, ends_s + KEEP_S + 2 * SLACK_S)

    return Keyed(
        in_window(window),
        before=in_window(window - 1) if into_s < KEEP_S + 3 * SLACK_S else None,
        after=in_window(window + 1) if into_s >= WINDOW_S - SLACK_S else None,
    )


Arguments = list[Any] | dict[str, Any]
ATTEMPTS_MAX: Final = 3
TOLD_MAX: Final = 10_000
"""For how many calls of unknown outcome a door remembers who made them."""
TIMELESS: Final = ClientId("http-time")
"""A client id that no request uses. A request with expiration 0 has always been expired, so asking about one
leaves no trace."""


class _NotRun(Exception):
    """Raised when a request has not been executed, as far as the group knows, and never will be."""


class HttpCalls:
    """Makes calls through *domain*, the host's own client of its domain."""

    def __init__(self, domain: Domain, host_context: HostContext) -> None:
        self._domain = domain
        self._host_context = host_context
        self._fingerprints: dict[RequestId, bytes] = {}
        self._told: dict[RequestId, str] = {}
        """To whom this door has told the id of a call without a key."""
        self._clock = MachineClock()

    async def call(
        self,
        who: str,
        group: str,
        method: str,
        arguments: Arguments,
        policy: CallPolicy,
        trace: Traceparent | None = None,
    ) -> Any:
        """Call once, as part of *trace*; if nobody answers, *who* can ask for the outcome."""
        encoded = _encoded(method, arguments)
        caller = await self._domain.caller(group)
        try:
            return await caller.call_traced(method, encoded, policy, traceparent=_carried(trace))
        except CallOutcomeUnknown as error:
            self._told[error.request_id] = who
            if len(self._told) > TOLD_MAX:
                del self._told[next(iter(self._told))]
            raise

    def is_told(self, who: str, request: RequestId) -> bool:
        """Whether *who* may ask for the outcome of *request* (N4)."""
        if is_of_door(request.client):
            return self._told.get(request) == who
        return may_use(who, request.client)

    async def call_keyed(
        self,
        who: str,
        key: str,
        group: str,
        method: str,
        arguments: Arguments,
        policy: CallPolicy,
        trace: Traceparent | None = None,
    ) -> tuple[Any, RequestId]:
        """The outcome and id of the first call under *key* of *who*; made now, in *trace*, if there was
        none.
        """
        encoded = _encoded(method, arguments)
        caller = await self._domain.caller(group)
        try:
            return await self._once(who, key, caller, method, encoded, policy, trace)
        except CallOutcomeUnknown:
            if not caller.is_gone:
                raise
        # The group of that name was removed: now there is none, or a different one.
        caller = await self._domain.caller(group)
        return await self._once(who, key, caller, method, encoded, policy, trace)

    async def outcome(self, request: RequestId) -> Any:
        """The final outcome of *request*."""
        return await self._domain.outcome(request)

    def group_of(self, request: RequestId) -> str | None:
        """The name of the group of *request*; None if this host does not know the group."""
        record = self._host_context.groups.catalog.records.get(request.group)
        return record.name if record is not None else None

    async def _once(
        self,
        who: str,
        key: str,
        caller: GroupCaller,
        method: str,
        encoded: bytes,
        policy: CallPolicy,
        trace: Traceparent | None,
    ) -> tuple[Any, RequestId]:
        group, began_ns = caller.reference.group, self._clock.now()
        is_kept = self._is_kept(group)
        if is_kept and not caller.has_answered:
            await self._learn_time(caller, policy)
        for _ in range(ATTEMPTS_MAX):
            ids = keyed(who, group, key, caller.time_s)
            if ids.before is not None and is_kept:
                with suppress(_NotRun):
                    return await self._asked(caller, ids.before, policy), ids.before
            # What was found out holds only for a while: a host that was paused since must not act on it.
            if (waited_ns := self._clock.now() - began_ns) > SLACK_S * SECOND:
                raise CallOutcomeUnknown(ids.request, waited_s=waited_ns / SECOND)
            for request in filter(None, (ids.request, ids.after)):
                with suppress(_NotRun):
                    made = self._made(caller, request, method, encoded, policy, _carried(trace))
                    return await made, request
            if keyed(who, group, key, caller.time_s).request == ids.request:
                raise CallRefused(NEVER_RUNS, f"request {ids.request} was settled before it ran")
            # This host's time was behind: the refusal told it the group's time.
        raise Unavailable("the group's time runs away")

    async def _learn_time(self, caller: GroupCaller, policy: CallPolicy) -> None:
        """Get an answer from the group that changes nothing, because ids follow from the group's time."""
        with suppress(_NotRun):
            await self._asked(caller, RequestId(caller.reference.group, TIMELESS, 1, 0), policy)

    async def _asked(self, caller: GroupCaller, request: RequestId, policy: CallPolicy) -> Any:
        try:
            return await caller.outcome(request, policy)
        except CallRefused as error:
            raise _NotRun if error.reason == NEVER_RUNS else error from None
        except CallOutcomeUnknown as error:
            # Forgotten: whatever was done under it is longer ago than a key is kept.
            raise _NotRun if error.request_id == request else error from None

    async def _made(
        self,
        caller: GroupCaller,
        request: RequestId,
        method: str,
        encoded: bytes,
        policy: CallPolicy,
        traceparent: bytes,
    ) -> Any:
        self._check_same(request, method, encoded)
        try:
            return await caller.call_as(request, method, encoded, policy, traceparent)
        except CallRefused as error:
            raise _NotRun if error.reason == NEVER_RUNS else error from None
        except CallOutcomeUnknown as error:
            # The error names a number of this host's connection; the group knows the request by the key's id.
            raise CallOutcomeUnknown(request, waited_s=error.waited_s) from None

    def _is_kept(self, group: GroupId) -> bool:
        """Whether the group's members keep replies at all."""
        record = self._host_context.groups.catalog.records.get(group)
        return record is None or not (style_named(record.style) is Style.STATELESS or is_self_kept(record))

    def _check_same(self, request: RequestId, method: str, encoded: bytes) -> None:
        """Report a key used for two different calls, as far as this host has seen the first one."""
        fingerprint = sha256(method.encode() + b"\0" + encoded).digest()
        known = self._fingerprints.setdefault(request, fingerprint)
        if known != fingerprint:
            raise reused("another call")
        if len(self._fingerprints) > FINGERPRINTS_MAX:
            del self._fingerprints[next(iter(self._fingerprints))]


def _carried(trace: Traceparent | None) -> bytes:
    return trace.encoded() if trace is not None else b""


def _encoded(method: str, arguments: Arguments) -> bytes:
    positional: tuple[Any, ...] = () if isinstance(arguments, Mapping) else tuple(arguments)
    named = dict(arguments) if isinstance(arguments, Mapping) else {}
    if "*" in named:
        raise InvalidRequest("no argument can be named *")
    try:
        return bytes(encode_arguments(positional, named))
    except (TypeError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise BadCall(f"{method}: an argument has no form on the wire: {error}") from None


def as_json(value: Any) -> Any:
    """*value*, if it can be written as JSON. Raises :class:`.problems.Refusal`: the call was executed."""
    try:
        if b"null" in msgspec.json.encode(value):
            _insist_finite(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        text = f"the call was executed, but what it returned has no form in JSON: {error}"
        raise refuse(422, "no_json", text, "Let the method return what JSON can say.") from None
    return value


def _insist_finite(value: Any) -> None:
    """Raises ``ValueError`` for a number that would silently be written as null."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"the number {value} is neither finite nor null")
    if isinstance(value, Mapping):
        value = (*value, *value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for each in value:
            _insist_finite(each)
