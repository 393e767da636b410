"""Calls on behalf of HTTP callers: each once, whatever is repeated, and through whichever host."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

import msgspec

from holdfast.calling.caller import Caller as GroupCaller
from holdfast.calling.config import CallPolicy
from holdfast.client.domain import Domain
from holdfast.housing.tuning import is_self_kept
from holdfast.machine import MachineClock
from holdfast.model.calls import CallOutcomeUnknown, RequestId
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import ClientId, GroupId
from holdfast.model.outcome import CallRefused
from holdfast.model.properties import Style
from holdfast.model.traceparent import Traceparent
from holdfast.model.units import SECOND
from holdfast.node.door import Interior
from holdfast.styles.interface import BadCall
from holdfast.styles.operation import encode_arguments
from holdfast.styles.style import style_named
from holdfast.web.bounds import FINGERPRINTS_MAX
from holdfast.web.keying import SLACK_S, keyed
from holdfast.web.problems import NEVER_RUNS, refuse, reused

Arguments = list[Any] | dict[str, Any]
ATTEMPTS_MAX: Final = 3
TIMELESS: Final = ClientId("http-time")
"""The client of no request: what has always been expired can be asked about without a trace."""


class _NotRun(Exception):
    """Raised when a request has not been executed, as far as the group knows, and never will be."""


class Calls:
    """Makes calls through *domain*, the host's own client of its domain."""

    def __init__(self, domain: Domain, interior: Interior) -> None:
        self._domain = domain
        self._interior = interior
        self._fingerprints: dict[RequestId, bytes] = {}
        self._clock = MachineClock()

    async def call(
        self,
        group: str,
        method: str,
        arguments: Arguments,
        policy: CallPolicy,
        trace: Traceparent | None = None,
    ) -> Any:
        """Call once, in *trace*; if nobody answers, its outcome can be asked for."""
        encoded = _encoded(method, arguments)
        caller = await self._domain.caller(group)
        return await caller.call_traced(method, encoded, policy, traceparent=_carried(trace))

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
        """What the first call under *key* of *who* came to, made now if it was not before; and its id. If it
        is made now, it is in *trace*."""
        encoded = _encoded(method, arguments)
        caller = await self._domain.caller(group)
        try:
            return await self._once(who, key, caller, method, encoded, policy, trace)
        except CallOutcomeUnknown:
            if not caller.is_gone:
                raise
        # The group of that name was removed: either there is none any more, or another.
        caller = await self._domain.caller(group)
        return await self._once(who, key, caller, method, encoded, policy, trace)

    async def outcome(self, request: RequestId) -> Any:
        """What became of *request*, for good."""
        return await self._domain.outcome(request)

    def group_of(self, request: RequestId) -> str | None:
        """The name of the group that *request* is of; None when this host knows of none."""
        record = self._interior.groups.directory.records.get(request.group)
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
            # What was found out is true for a while: a host that was paused since must not act on it.
            if (waited_ns := self._clock.now() - began_ns) > SLACK_S * SECOND:
                raise CallOutcomeUnknown(ids.request, waited_s=waited_ns / SECOND)
            for request in filter(None, (ids.request, ids.after)):
                with suppress(_NotRun):
                    made = self._made(caller, request, method, encoded, policy, _carried(trace))
                    return await made, request
            if keyed(who, group, key, caller.time_s).request == ids.request:
                raise CallRefused(NEVER_RUNS, f"request {ids.request} was settled before it ran")
            # This host was behind the times: the refusal told it the group's.
        raise Unavailable("the group's time runs away")

    async def _learn_time(self, caller: GroupCaller, policy: CallPolicy) -> None:
        """Have the group answer something that changes nothing: ids follow from its time."""
        with suppress(_NotRun):
            await self._asked(caller, RequestId(caller.reference.group, TIMELESS, 1, 0), policy)

    async def _asked(self, caller: GroupCaller, request: RequestId, policy: CallPolicy) -> Any:
        try:
            return await caller.outcome(request, policy)
        except CallRefused as error:
            raise _NotRun if error.reason == NEVER_RUNS else error from None
        except CallOutcomeUnknown as error:
            # Forgotten: whatever was done under it is longer ago than a key is kept for.
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
            # Its own number is of this host's connection: the group knows the request by the key's.
            raise CallOutcomeUnknown(request, waited_s=error.waited_s) from None

    def _is_kept(self, group: GroupId) -> bool:
        """Whether its members keep replies at all."""
        record = self._interior.groups.directory.records.get(group)
        return record is None or not (style_named(record.style) is Style.STATELESS or is_self_kept(record))

    def _check_same(self, request: RequestId, method: str, encoded: bytes) -> None:
        """One key, one call: tells callers of their mistake, as far as this host has seen the first one."""
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
    """*value*, which has a form in JSON; else raises :class:`.problems.Refusal`: the call was executed."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        text = f"the call was executed, but what it returned has no form in JSON: {error}"
        raise refuse(422, "no_json", text, "Let the method return what JSON can say.") from None
    return value
