"""What a method uses instead of a clock, a random source, a thread or a socket.

Everything here is derived from the operation being executed, so every member and every replay gets the same
values. ``holdfast.context`` is the only :class:`Context`. Outside an operation all its methods raise
:class:`OutsideOperation`.
"""

import random
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast, overload
from uuid import UUID  # fence: only the value; its random source is not used

import msgspec

from holdfast.execution.interface import BadCall, Interface, Operation, interface_of
from holdfast.execution.outputs import OutputId, Outputs
from holdfast.execution.records import encode_arguments_in_order
from holdfast.execution.sends import Sends
from holdfast.execution.timers import Timers, parse_schedule
from holdfast.model.calls import Request, RequestId
from holdfast.model.conversion import fitted
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, ClientId, GroupId
from holdfast.model.outcome import Outcome, value_of
from holdfast.model.reference import group_abroad
from holdfast.model.traceparent import Traceparent

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

TIMEOUT_S_MAX: Final = 24 * 3600


class OutsideOperation(InvalidRequest):
    """Raised when ``holdfast.context`` is used where no operation is being executed."""

    code = "outside_operation"


class NotOrdered(InvalidRequest):
    """Raised when a query or a stateless group asks for something that only an ordered operation may do."""

    code = "not_ordered"


class Scope:
    """The operation that is being executed, with everything its method can reach through the context."""

    __slots__ = (
        "calls",
        "carried",
        "client",
        "group",
        "interface",
        "number",
        "on_raised",
        "outputs",
        "random",
        "sends",
        "sent",
        "time_ns",
        "timers",
        "unawaited",
    )

    def __init__(
        self,
        group: str,
        interface: Interface,
        timers: Timers | None,
        on_raised: "OnRaised | None" = None,
        sends: Sends | None = None,
    ) -> None:
        self.group = group
        self.interface = interface
        self.timers = timers
        """None where operations are not ordered: no timer can be set and no other group called."""
        self.on_raised = on_raised
        """Called with every exception that a method raises, in addition to the caller's reply."""
        self.sends = sends
        """None where nothing can be sent."""
        self.outputs: Outputs | None = None
        """None where nothing can be given to the outside."""
        self.sent = 0
        """How many calls this operation has sent."""
        self.carried = b""
        """The trace that the call carries."""
        self.client = ClientId("")
        self.number = 0
        self.time_ns = 0
        self.calls = 0
        self.random: random.Random | None = None
        self.unawaited: list[NestedCall[Any]] | None = None
        """Calls to other groups that the method has made but not awaited; None while it has made none."""

    def begin(self, client: ClientId, number: int, time_ns: int, carried: bytes = b"") -> None:
        """Start representing this operation."""
        self.client = client
        self.number = number
        self.time_ns = time_ns
        self.carried = carried
        self.random = None
        self.sent = 0

    @property
    def traceparent(self) -> Traceparent:
        return Traceparent.of(self.carried, self.group, self.client, self.number)

    def dice(self) -> random.Random:
        if self.random is None:
            self.random = random.Random(f"{self.group}/{self.client}/{self.number}")
        return self.random


DELAY_S_MAX: Final = 100 * 366 * 24 * 3600
SEND_S: Final = 300.0
"""How long a sent call is retried by default."""
SEND_S_MAX: Final = 24 * 3600

OnRaised = Callable[[Scope, BaseException], None]

scope_now: ContextVar[Scope | None] = ContextVar("scope_now", default=None)
"""Set by :mod:`.execution` around every step of a method."""


class NestedCall(Generic[R]):
    """A call that an operation makes to another group. Awaiting it suspends the operation until the call's
    outcome is a record of the sequence (E3)."""

    __slots__ = ("arguments", "call", "group", "method", "returns", "timeout_ns")

    def __init__(
        self,
        group: str,
        method: str,
        arguments: msgspec.Raw,
        timeout_ns: int | None = None,
        returns: Any = Any,
    ) -> None:
        self.group = group
        self.method = method
        self.arguments = arguments
        self.timeout_ns = timeout_ns
        """How long the operation waits for this call; None: as long as the operation's own caller waits."""
        self.returns = returns
        self.call = 0
        """The index of this call among the operation's calls, from 1. Assigned when the call is awaited."""

    def __await__(self) -> Generator["NestedCall[Any]", Outcome, R]:
        scope, _ = _ordered("calls another group")
        if scope.unawaited and self in scope.unawaited:
            scope.unawaited.remove(self)
        scope.calls += 1
        self.call = scope.calls
        outcome = yield self
        value = value_of(outcome)
        if self.returns is Any:
            return cast(R, value)
        operation = RequestId(GroupId(0), scope.client, scope.number, 0)
        return cast(R, fitted(value, self.returns, f"{self.group}.{self.method}", operation))


class OtherGroup(Generic[T]):
    """Another group as an operation sees it: ``await group.reserve(item)`` calls its method ``reserve``.

    If the class is given (``context.group("stock", Stock)``), method names and arguments are checked before
    the call is made, the result is converted to the method's return type, and
    ``await group.call(Stock.reserve, item)`` has the type of that method. A method named ``call`` is reached
    with ``call("call")``.
    """

    def __init__(self, name: str, interface: Interface | None = None, timeout_s: float | None = None) -> None:
        """Raises ``InvalidRequest`` for an invalid timeout."""
        if timeout_s is not None and not 0 < timeout_s <= TIMEOUT_S_MAX:
            raise InvalidRequest(
                f"a call's timeout is above 0 and at most {TIMEOUT_S_MAX} s, not {timeout_s}"
            )
        self._name = name
        self._interface = interface
        self._timeout_ns = None if timeout_s is None else max(1, round(timeout_s * SECOND))

    @overload
    def call(
        self,
        method: Callable[Concatenate[T, P], Coroutine[Any, Any, R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> NestedCall[R]: ...

    @overload
    def call(
        self, method: Callable[Concatenate[T, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> NestedCall[R]: ...

    @overload
    def call(self, method: str, /, *args: Any, **kwargs: Any) -> NestedCall[Any]: ...

    def call(self, method: Any, /, *args: Any, **kwargs: Any) -> NestedCall[Any]:
        """Return an awaitable call of *method*, given by name or as a function of the class. Raises
        ``BadCall`` if the method does not exist or the arguments do not fit."""
        name = method if isinstance(method, str) else method.__name__
        return self._made(name, self._operation(name), args, kwargs)

    def __getattr__(self, method: str) -> Callable[..., NestedCall[Any]]:
        if method.startswith("_"):
            raise AttributeError(f"{method} is private to the group {self._name}")
        try:
            operation = self._operation(method)
        except BadCall as error:
            raise AttributeError(str(error)) from None

        def call(*args: object, **kwargs: object) -> NestedCall[Any]:
            return self._made(method, operation, args, kwargs)

        return call

    def _operation(self, name: str) -> Operation | None:
        return self._interface.operation(name) if self._interface is not None else None

    def _made(
        self, name: str, operation: Operation | None, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> NestedCall[Any]:
        arguments, scope = encode_arguments_in_order(args, kwargs), scope_now.get()
        if operation is not None:
            operation.decoded(arguments)  # the same check as the called group makes
        returns = operation.returns if operation is not None else Any
        made: NestedCall[Any] = NestedCall(self._name, name, arguments, self._timeout_ns, returns)
        if scope is not None and scope.timers is not None:
            scope.unawaited = scope.unawaited or []
            scope.unawaited.append(made)
        return made


class Receiver(Generic[T]):
    """Another group, as the receiver of one-way calls. If the class is given, calls are checked before they
    are sent, and ``call(Audit.note, text)`` has the type of that method."""

    def __init__(self, name: str, interface: Interface | None, expires_s: float) -> None:
        """Raises ``InvalidRequest`` for an invalid expiration."""
        if not 0 < expires_s <= SEND_S_MAX:
            raise InvalidRequest(f"a send expires within {SEND_S_MAX} s, not {expires_s}")
        self._name = name
        self._interface = interface
        self._expires_ns = round(expires_s * SECOND)

    @overload
    def call(
        self, method: Callable[Concatenate[T, P], Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> None: ...

    @overload
    def call(self, method: str, /, *args: Any, **kwargs: Any) -> None: ...

    def call(self, method: Any, /, *args: Any, **kwargs: Any) -> None:
        """Send a call of *method*, given by name or as a function of the class. Raises ``OutboxFull``, and
        ``BadCall`` if the method does not exist or the arguments do not fit."""
        name = method if isinstance(method, str) else method.__name__
        scope, sends = _sender()
        arguments = encode_arguments_in_order(args, kwargs)
        if self._interface is not None:
            self._interface.operation(name).decoded(arguments)  # a call that does not fit is not sent
        caller, carried = Request(scope.client, scope.number), scope.traceparent.encoded()
        expires_ns = scope.time_ns + self._expires_ns
        sends.put(self._name, name, arguments, caller, scope.sent + 1, expires_ns, carried)
        scope.sent += 1

    def __getattr__(self, method: str) -> Callable[..., None]:
        if method.startswith("_"):
            raise AttributeError(f"{method} is private to the group {self._name}")

        def send(*args: object, **kwargs: object) -> None:
            self.call(method, *args, **kwargs)

        return send


class Context:
    """The operation that is being executed, for use in the methods of a group's class."""

    def time(self) -> float:
        """The time of the operation in seconds since the Unix epoch. It is the group's time, not the
        machine's."""
        return self.time_ns() / SECOND

    def time_ns(self) -> int:
        """The time of the operation in nanoseconds. A query sees the time of the last operation."""
        return _scope().time_ns

    @property
    def random(self) -> random.Random:
        """A random number generator seeded with the operation's request id."""
        return _scope().dice()

    def uuid4(self) -> UUID:
        """A random UUID that is the same in every replay of this operation."""
        return UUID(int=_scope().dice().getrandbits(128), version=4)

    @property
    def request_id(self) -> Request:
        """The request id of this operation. It stays the same when the call is retried or replayed."""
        scope = _scope()
        return Request(scope.client, scope.number)

    @property
    def trace_id(self) -> str:
        """The id of the trace this operation belongs to, for log lines: the caller's trace, or one derived
        from the request id. It is the same in every retry and replay, and in the calls this operation
        makes."""
        return _scope().traceparent.trace_id

    @property
    def traceparent(self) -> str:
        """The operation's trace and its caller's span, as a W3C ``traceparent`` header."""
        return str(_scope().traceparent)

    @property
    def this_group(self) -> str:
        """The name of the group whose method is running."""
        return _scope().group

    @overload
    def group(self, name: str, *, timeout_s: float | None = None, domain: str = "") -> OtherGroup[Any]: ...

    @overload
    def group(
        self, name: str, cls: type[T], *, timeout_s: float | None = None, domain: str = ""
    ) -> OtherGroup[T]: ...

    def group(
        self, name: str, cls: type | None = None, *, timeout_s: float | None = None, domain: str = ""
    ) -> OtherGroup[Any]:
        """Return another group: ``await context.group("stock").reserve(item)`` calls it once, despite
        replays.

        With *cls*, the other group's class, the call is checked and typed (:class:`OtherGroup`). With
        *domain*, the group belongs to the domain at ``holdfast://host:port[,host:port...]/name``.

        The operation waits for a call at most *timeout_s* of the group's time, and never longer than its own
        caller waits for it; without *timeout_s*, as long as that caller waits. Operations ordered after this
        one wait, too.

        Awaiting the call raises ``MethodRaised`` if the method raised; ``CallRefused`` if it was not executed
        and never will be, as ``CallCycle`` if the groups wait for each other or ``NestedNotExecuted`` if no
        member accepted it in time; and ``NestedOutcomeUnknown`` if it may have been executed or may still be.
        """
        _ordered("calls another group")
        interface = interface_of(cls) if cls is not None else None
        return OtherGroup(group_abroad(domain, name) if domain else name, interface, timeout_s)

    @overload
    def send(self, name: str, *, domain: str = "", expires_s: float = SEND_S) -> Receiver[Any]: ...

    @overload
    def send(
        self, name: str, cls: type[T], *, domain: str = "", expires_s: float = SEND_S
    ) -> Receiver[T]: ...

    def send(
        self, name: str, cls: type | None = None, *, domain: str = "", expires_s: float = SEND_S
    ) -> Receiver[Any]:
        """Return another group as a receiver of one-way calls: ``context.send("audit").note(text)`` returns
        at once.

        The call is made once this operation is committed. It is executed once, after all calls sent to that
        group earlier, and retried until it has been executed or *expires_s* have passed by this group's time.
        Its result is discarded. A failed send is reported as a fault and listed by ``holdfast group sends``.
        *cls* and *domain* are as in :meth:`group`. Sending raises ``OutboxFull`` if too many calls wait to be
        sent.
        """
        _sender()
        interface = interface_of(cls) if cls is not None else None
        return Receiver(group_abroad(domain, name) if domain else name, interface, expires_s)

    def emit(self, topic: str, payload: bytes) -> OutputId:
        """Give an output to the destinations of this group, once this operation is committed. Returns its id,
        which is the same at every member and in every replay. Raises ``InvalidRequest`` if it is too
        long."""
        scope = _scope()
        if scope.outputs is None:
            raise NotOrdered("only an ordered operation gives outputs: queries have no position")
        return scope.outputs.put(topic, payload)

    def call_later(self, delay_s: float, method: str | Callable[..., object], *args: object) -> int:
        """Call a method of this object once, *delay_s* from now by the group's time. The timer survives
        failover.

        Returns the timer's number, for :meth:`cancel`.
        """
        if not 0 <= delay_s <= DELAY_S_MAX:
            raise InvalidRequest(f"a delay is between 0 and {DELAY_S_MAX} s, not {delay_s}")
        scope, timers = _ordered("sets a timer")
        due_ns = scope.time_ns + round(delay_s * SECOND)
        arguments = encode_arguments_in_order(args, {})
        return timers.set(due_ns, _name(scope, method, arguments), arguments)

    def cron(self, schedule: str, method: str | Callable[..., object], *args: object) -> int:
        """Call a method repeatedly at the times of a five-field cron expression, in UTC. Returns the timer's
        number."""
        scope, timers = _ordered("sets a timer")
        due_ns = parse_schedule(schedule).after(scope.time_ns)
        arguments = encode_arguments_in_order(args, {})
        return timers.set(due_ns, _name(scope, method, arguments), arguments, schedule=schedule)

    def cancel(self, timer: int) -> bool:
        """Cancel a timer. Returns whether it was still pending."""
        return _ordered("cancels a timer")[1].cancel(timer)


context: Final = Context()


def _scope() -> Scope:
    scope = scope_now.get()
    if scope is None:
        raise OutsideOperation("holdfast.context is for methods of a group while they execute an operation")
    return scope


def _ordered(does: str) -> tuple[Scope, Timers]:
    scope = _scope()
    if scope.timers is None:
        raise NotOrdered(
            f"only an ordered operation {does}: queries and stateless groups have no record of it"
        )
    return scope, scope.timers


def _sender() -> tuple[Scope, Sends]:
    scope = _scope()
    if scope.sends is None:
        raise NotOrdered(
            "only an ordered operation sends calls: "
            "queries, stateless groups, __init__ and upgraded have no record"
        )
    return scope, scope.sends


def _name(scope: Scope, method: str | Callable[..., object], arguments: msgspec.Raw) -> str:
    """Return the name of a method of this object. The method and its *arguments* are checked now, because
    nobody could be told when the timer fires. Raises ``BadCall``."""
    name = method if isinstance(method, str) else getattr(method, "__name__", "")
    operation = scope.interface.operation(name)
    operation.decoded(arguments)
    return operation.name
