"""Proxies: a group's methods as awaitable methods."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, cast, overload

import msgspec

from holdfast.calling.config import CallPolicy, rounded
from holdfast.calling.group_client import Answer, GroupClient
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.client.resources import NONE, Members, Properties
from holdfast.execution.interface import BadCall, Interface
from holdfast.execution.records import encode_arguments
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.admin.objects import GroupReference
from holdfast.model.calls import METHOD_CHARACTERS_MAX, STALE_MS_MAX
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, GroupId
from holdfast.model.reference import is_sendable
from holdfast.model.validation import insist_valid

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

Consistency = Literal["linearizable", "stale"]
METHODS_KEPT_MAX: Final = 1_000
"""Method names come from the caller: without a limit, a mistake could fill the memory."""
_encode: Final = msgspec.msgpack.Encoder().encode


class Group(Generic[T]):
    """A group to call. ``await group.deposit("alice", 5)`` calls its method ``deposit``.

    With the class given (``domain.group("ledger", Ledger)``) method names and arguments are checked before
    anything is sent, results are converted to the method's declared return type, and ``await
    group.call(Ledger.deposit, "alice", 5)`` has that method's types.

    A method whose name is taken here (``call``, ``options``, ``typed``, ``add_member``, ``create_member``,
    ``remove_member``, ``set_primary``, ``reference``, ``properties``) is reached as ``call("options")``. Two
    proxies are equal if they are of one group of one domain, whatever their options and whatever view of it
    they know (FTC-47).
    """

    def __init__(
        self,
        caller: GroupClient,
        policy: CallPolicy,
        interface: Interface | None = None,
        *,
        lane: OrderedLane | None = None,
        stale_ms: int | None = None,
        members: Members | None = None,
        domain: str = "",
    ) -> None:
        self._caller = caller
        self._domain = domain
        self._policy = policy
        self._interface = interface
        self._lane = lane
        self._stale_ms = stale_ms
        self._members = members
        self._methods: dict[str, Callable[..., Answer]] = {}

    @overload
    def call(
        self,
        method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> asyncio.Future[R]: ...

    @overload
    def call(
        self, method: Callable[Concatenate[T, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[R]: ...

    @overload
    def call(self, method: str, /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]: ...

    def call(self, method: Any, /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """Call a method, given by name or as a function of the class; returns a future of its result.

        Raises at once what is known at once: arguments that cannot be encoded or do not fit. The future
        raises ``MethodRaised`` for an exception of the method's own, ``ResultDoesNotFit`` if it was executed
        but the result is not of the declared type, ``CallOutcomeUnknown`` if it may have been executed, and
        other errors if it was not.
        """
        name = method if isinstance(method, str) else method.__name__
        return (self._methods.get(name) or self._method(name))(*args, **kwargs)

    def options(
        self,
        *,
        duration_s: float | None = None,
        outcome_s: float | None = None,
        ordered: bool | None = None,
        consistency: Consistency | None = None,
        stale_s: float | None = None,
        reinvoke: bool | None = None,
        wait: bool | None = None,
    ) -> "Group[T]":
        """The same group, called with other options.

        *duration_s* is the request duration: how long a call is tried before it ends unanswered. For
        *outcome_s* longer its outcome can be asked for, and nested calls that it makes may go on. *ordered*
        calls run in the order they are made, one frame of them at a time (X5). ``consistency="stale"`` lets
        any member answer queries from a state at most *stale_s* old, though never older than what this client
        has seen. *reinvoke* says whether a call that may have been executed is sent again, *wait* whether a
        call waits for room when too many are in flight.
        """
        changes: dict[str, Any] = {}
        if duration_s is not None:
            changes["duration_ns"] = rounded(duration_s * SECOND)
        if outcome_s is not None:
            changes["outcome_ns"] = rounded(outcome_s * SECOND)
        if reinvoke is not None:
            changes["is_reinvoked"] = reinvoke
        if wait is not None:
            changes["waits_for_room"] = wait
        policy = msgspec.structs.replace(self._policy, **changes)
        insist_valid(policy, "how a call is made")
        lane = self._lane if ordered is None else OrderedLane() if ordered else None
        stale_ms = self._stale_ms
        if consistency not in (None, "linearizable", "stale"):
            raise InvalidRequest(f'consistency is "linearizable" or "stale", not {consistency!r}')
        if consistency == "stale" or stale_s is not None:
            stale_ms = rounded((stale_s if stale_s is not None else 1.0) * 1000)
            if consistency == "linearizable" or not 0 <= stale_ms <= STALE_MS_MAX:
                raise InvalidRequest('stale_s goes with consistency="stale" and lies within a day')
        elif consistency == "linearizable":
            stale_ms = None
        members = self._members
        return Group(
            self._caller,
            policy,
            self._interface,
            lane=lane,
            stale_ms=stale_ms,
            members=members,
            domain=self._domain,
        )

    async def add_member(self, host: str, own: str = "") -> GroupInfo:
        """See :meth:`.resources.Members.add`."""
        return await self._require_members().add(host, own)

    async def remove_member(self, host: str) -> GroupInfo:
        """See :meth:`.resources.Members.remove`."""
        return await self._require_members().remove(host)

    async def create_member(
        self, location: str, *, type_id: str = "", criteria: Mapping[str, Any] = NONE
    ) -> GroupReference:
        """See :meth:`.resources.Members.create`."""
        return await self._require_members().create(location, type_id=type_id, criteria=criteria)

    async def reference(self) -> GroupReference:
        """See :meth:`.resources.Members.reference`."""
        return await self._require_members().reference()

    @property
    def properties(self) -> Properties:
        """The properties in effect for the group, which can be set while it runs."""
        return self._require_members().properties

    async def set_primary(self, host: str) -> GroupInfo:
        """See :meth:`.resources.Members.set_primary`."""
        return await self._require_members().set_primary(host)

    async def hand_over(self, host: str) -> GroupInfo:
        """See :meth:`.resources.Members.hand_over`."""
        return await self._require_members().hand_over(host)

    def typed(self, interface: Callable[..., R]) -> R:
        """This proxy, typed as *interface*: a Protocol whose methods are ``async def``."""
        return cast(R, self)

    def __getattr__(self, name: str) -> Callable[..., Answer]:
        if name.startswith("_"):
            raise AttributeError(f"{name} is private to the group")
        try:
            method = self._method(name)
        except BadCall as error:
            raise AttributeError(str(error)) from None
        # Stored, so that the next call finds it as an ordinary attribute.
        self.__dict__[name] = method
        return method

    def __repr__(self) -> str:
        return f"<group {self._caller.reference.name}>"

    @property
    def _identity(self) -> tuple[str, GroupId]:
        return self._domain, self._caller.reference.group

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, Group) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def _require_members(self) -> Members:
        if self._members is None:
            raise InvalidRequest("members are changed through a group that a domain gave")
        return self._members

    def _method(self, name: str) -> Callable[..., Answer]:
        if not 0 < len(name) <= METHOD_CHARACTERS_MAX:
            raise BadCall(f"a method's name has 1 to {METHOD_CHARACTERS_MAX} characters")
        if not is_sendable(name):
            raise BadCall(f"{name!r} cannot be a method's name")
        caller, policy, lane, stale_ms = self._caller, self._policy, self._lane, self._stale_ms
        call = caller.call_traced if caller.is_followed else caller.call
        operation = self._interface.operation(name) if self._interface is not None else None
        is_query = operation is not None and operation.is_query
        returns = operation.returns if operation is not None and operation.returns is not Any else None
        decode: Callable[[bytes], object] | None = None
        if operation is not None:
            decode = operation.whole.decode if operation.whole is not None else operation.decoded

        def method(*args: Any, **kwargs: Any) -> Answer:
            try:
                arguments = bytes(encode_arguments(args, kwargs)) if kwargs else _encode(args)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                raise BadCall(f"{name}: an argument has no form on the wire: {error}") from None
            if operation is not None and decode is not None:
                try:  # as the group will, so that invalid arguments are not sent
                    decode(arguments)
                except Exception:  # defaults, names or a mistake, which the long way tells apart
                    operation.decoded(arguments)
            return call(name, arguments, policy, is_query, stale_ms, lane, returns)

        if len(self._methods) < METHODS_KEPT_MAX:
            self._methods[name] = method
        return method
