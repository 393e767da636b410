"""Gives administrative orders to any host of the domain, on a separate connection."""

import secrets
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

import msgspec

from holdfast.model.admin.domain import CreateIndex
from holdfast.model.admin.groups import (
    STARTING,
    UNKNOWN_ORDER,
    AddMember,
    Answer,
    CreateGroup,
    DeleteGroup,
    GroupInfo,
    GroupList,
    ListGroups,
    Order,
    OrderAnswer,
    OrderRefused,
    Question,
    RemoveMember,
    decode_order,
    decode_order_answer,
    encode_order,
)
from holdfast.model.admin.hosts import DrainHost
from holdfast.model.admin.objects import (
    CreateObject,
    RegisterFaultNotifier,
    RemoveProperties,
    SetProperties,
)
from holdfast.model.admin.upgrades import TryUpgrade
from holdfast.model.errors import BrokenInvariant, HoldfastError, InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Expected,
    Kind,
    NotConnected,
    NotHeard,
    Reason,
    Requests,
    Role,
    connect,
)

Given = TypeVar("Given", bound=Answer)

CONNECT_S: Final = 2.0
ORDER_S: Final = 20.0
"""How long a host may take: it waits for the authority, and the authority for its disk."""
ASK_S: Final = 3.0
"""How long one host may take to answer a question while there are others to ask: it may be cut off from the
authority while they are not."""
TRIAL_S: Final = 100.0
"""How long a host may take to try new code: on a busy machine that gives way to everything else."""
Marked = (
    CreateGroup
    | CreateObject
    | CreateIndex
    | DrainHost
    | SetProperties
    | RemoveProperties
    | RegisterFaultNotifier
)
"""Orders that are executed once, however often they are given with the same nonce."""


class AdminRefused(InvalidRequest):
    """Raised when a host refuses an order that can never succeed as it is written; ``reason`` is its code."""

    code = "order_refused"

    def __init__(self, reason: str, text: str, exception: str = "", about: str = "{}") -> None:
        super().__init__(text)
        self.reason = reason
        self.source_exception = exception
        """The corresponding exception of Fault Tolerant CORBA; empty if there is none."""
        self._about = about

    @property
    def about(self) -> dict[str, Any]:
        return msgspec.json.decode(self._about, type=dict[str, Any])


class OrderUnsettled(OutcomeUnknown):
    """Raised when the host that was asked does not know whether the order was carried out."""

    def __init__(self, text: str) -> None:
        HoldfastError.__init__(self, text)


AboutGroups = CreateGroup | DeleteGroup | ListGroups | AddMember | RemoveMember
"""Orders that are answered with the groups they are about."""


class Submit(Protocol):
    """Has an order executed by the domain (:func:`give`)."""

    def __call__(self, wanted: Order, kind: type[Given]) -> Awaitable[Given]: ...


async def order(
    addresses: Sequence[Address],
    endpoint: ConnectionSettings,
    wanted: AboutGroups,
    *,
    insecure: bool = False,
) -> tuple[GroupInfo, ...]:
    """Have an order about groups executed. Raises as :func:`give` does."""
    return (await give(addresses, endpoint, wanted, GroupList, insecure=insecure)).groups


async def give(
    addresses: Sequence[Address],
    endpoint: ConnectionSettings,
    wanted: Order,
    kind: type[Given],
    *,
    insecure: bool = False,
) -> Given:
    """Have *wanted* executed by the first host that can be reached and has started; the answer is of *kind*.

    A question is also asked of the next host if there is no answer. Raises :class:`AdminRefused`,
    ``Unavailable`` if the order was not executed, and ``OutcomeUnknown`` if it may have been.
    """
    if isinstance(wanted, Marked) and not wanted.nonce:
        wanted = msgspec.structs.replace(wanted, nonce=secrets.token_hex(16))
    order = _encoded(wanted)
    endpoint = replace(endpoint, expected=Expected(roles=frozenset({Role.HOST})))
    failure: HoldfastError = Unavailable("no host of the domain is known to live")
    for address in addresses:
        is_asked_on = isinstance(wanted, Question) and address != addresses[-1]
        receiver = _OrderReceiver()
        try:
            connection = await connect(
                address, receiver.begin, endpoint, deadline_s=CONNECT_S, insecure=insecure
            )
        except NotConnected as error:
            failure = error
            continue
        try:
            deadline_s = TRIAL_S if isinstance(wanted, TryUpgrade) else ASK_S if is_asked_on else ORDER_S
            body = await receiver.requests.ask(Kind.GROUP_ORDER, order, deadline_s=deadline_s)
        except OutcomeUnknown as error:
            if is_asked_on:
                continue
            raise _unsettled(wanted, address, error) from None
        finally:
            connection.close()
            await connection.wait_gone()
        answer = decode_order_answer(body)
        if isinstance(answer, OrderRefused) and answer.code in (STARTING, UNKNOWN_ORDER):
            failure = Unavailable(answer.text)
            continue
        return _taken(answer, kind)
    raise failure


def _unsettled(wanted: Order, address: Address, error: OutcomeUnknown) -> OrderUnsettled:
    """The error for an order that was not answered, in terms of the order."""
    is_ended = isinstance(error, NotHeard)
    how = "ended before it answered" if is_ended else f"has not answered within {error.waited_s:g} s"
    if isinstance(wanted, Question | TryUpgrade):
        return OrderUnsettled(f"the host at {address} {how}: ask again")
    return OrderUnsettled(
        f"the host at {address} {how}: what was ordered may have been done; look before you order it again"
    )


def _encoded(wanted: Order) -> bytes:
    """Encode *wanted*. Raises ``InvalidRequest`` if the host could not decode it."""
    try:
        order = encode_order(wanted)
        decode_order(order)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # msgspec's are among them
        said, _, field = str(error).partition(" - at `$.")
        raise InvalidRequest(f"{field.rstrip('`') or 'the order'}: {said}") from None
    return order


def _taken(answer: OrderAnswer, kind: type[Given]) -> Given:
    if isinstance(answer, kind):
        return answer
    if not isinstance(answer, OrderRefused):
        raise BrokenInvariant(f"an order was answered with {answer}")
    if answer.is_final:
        raise AdminRefused(answer.code, answer.text, answer.exception, answer.about)
    if answer.code == OutcomeUnknown.code:
        raise OrderUnsettled(answer.text)
    raise Unavailable(answer.text)


class _OrderReceiver:
    """The receiver of a connection on which orders are given."""

    requests: Requests

    def begin(self, connection: Connection) -> "_OrderReceiver":
        self.requests = Requests(connection)
        return self

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is Kind.GROUP_ANSWER:
            self.requests.on_answer(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.requests.on_closed(reason)
