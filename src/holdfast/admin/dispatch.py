"""What people order of a host besides making groups: tell a history, recover, be deaf.

The orders that come on connections: so many at a time, each answered, whatever becomes of it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.explain import Explainer, UnkeptStates, with_lacking
from holdfast.admin.fault_injection import PartitionFilter
from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.hosts import HostsAdmin
from holdfast.admin.indexes import IndexesAdmin
from holdfast.admin.members import MembersAdmin
from holdfast.admin.notifier_group import NotifierGroups
from holdfast.admin.objects import ObjectsAdmin
from holdfast.admin.permissions import check_permitted
from holdfast.admin.properties import PropertiesAdmin
from holdfast.admin.reconciler import Reconciler
from holdfast.admin.recovery import DomainStateAdmin, RecoveryAdmin
from holdfast.admin.upgrade import UpgradeTrial, UpgradeWishes
from holdfast.authority.driver import insist
from holdfast.authority.history import Chapter
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.authority.views import NoGroup, read_view
from holdfast.machine.real_ports import fresh_nonce
from holdfast.model.admin.domain import (
    CreateIndex,
    DropIndexes,
    InspectDomain,
    ListIndexes,
    ListTransactions,
    RecoverDomain,
)
from holdfast.model.admin.groups import (
    AddMember,
    CreateGroup,
    DeleteGroup,
    ExplainGroup,
    GivenUpInfo,
    GroupHistory,
    InspectGroup,
    ListGroups,
    Order,
    OrderAnswer,
    OrderRefused,
    RecoverGroup,
    RemoveMember,
    SetPrimary,
    ShowHistory,
    ViewInfo,
)
from holdfast.model.admin.hosts import Deafen, Deafened, DrainHost, ListHosts, RemoveHost
from holdfast.model.admin.objects import (
    CreateMember,
    CreateObject,
    DeleteObject,
    ListFactories,
    RegisterFaultNotifier,
    RemoveProperties,
    SetProperties,
    ShowFaultNotifier,
    ShowProperties,
    ShowReference,
)
from holdfast.model.admin.upgrades import CodeChangeInfo, TryUpgrade, UpgradeGroup, WithdrawUpgrade
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import MILLISECOND, HostId
from holdfast.net import Role

if TYPE_CHECKING:
    from holdfast.groups.host_groups import HostGroups
import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from holdfast.model.admin.groups import Question, decode_order, encode_order
from holdfast.model.errors import OutcomeUnknown, Overloaded, Unavailable
from holdfast.net import Connection, Kind, split_number, with_number


class AdminDispatch:
    """Does the orders of people, through one host. *allows_chaos*: also those that break something."""

    def __init__(
        self,
        groups: "HostGroups",
        authority: Authority,
        creating: GroupsAdmin,
        notifying: NotifierGroups,
        deafness: PartitionFilter,
        managing: Reconciler,
        control: ControlPlane,
        hosts: Iterable[HostId],
        *,
        allows_chaos: bool,
    ) -> None:
        self._groups = groups
        self._authority = authority
        self._creating = creating
        self._placing = MembersAdmin(groups, authority, control, creating, fresh_nonce)
        self._objects = ObjectsAdmin(groups.domain, groups.directory, control, creating, self._placing)
        self._properties = PropertiesAdmin(control, creating, notifying)
        self._upgrading = UpgradeWishes(authority, creating, fresh_nonce)
        self._trying = UpgradeTrial(groups, creating)
        self._recovering = RecoveryAdmin(groups.recovery, creating)
        self._unkept = UnkeptStates(groups.directory, authority)
        self._explaining = Explainer(groups.directory, creating, self._recovering, managing, self._unkept)
        self._hosts = HostsAdmin(groups.directory, control, hosts)
        self._indexing = IndexesAdmin(groups.directory, control, authority)
        self._governing = DomainStateAdmin(groups.me.host, groups.directory, control)
        self._deafness = deafness
        self._allows_chaos = allows_chaos

    async def do(self, order: Order, by: Role) -> OrderAnswer:
        """Do it, however long the authority takes."""
        try:
            check_permitted(order, by)
            match order:
                case CreateGroup() | DeleteGroup() | ListGroups():
                    return await self._creating.do(order)
                case AddMember() | RemoveMember() | SetPrimary():
                    return await self._placing.do(order)
                case CreateObject() | DeleteObject() | CreateMember() | ShowReference() | ListFactories():
                    return await self._objects.do(order)
                case (
                    ShowProperties()
                    | SetProperties()
                    | RemoveProperties()
                    | ShowFaultNotifier()
                    | RegisterFaultNotifier()
                ):
                    return await self._properties.do(order)
                case ExplainGroup():
                    return await self._explaining.explain(order)
                case ListHosts():
                    return self._hosts.list()
                case ListIndexes():
                    return self._indexing.shown()
                case ListTransactions():
                    return await self._indexing.transactions(order.limit)
                case ShowHistory():
                    return await self._tell(order)
                case CreateIndex() | DropIndexes():
                    return await self._indexing.do(order)
                case DrainHost():
                    return await self._hosts.drain(order)
                case RemoveHost():
                    return await self._hosts.remove(order)
                case InspectDomain() | RecoverDomain():
                    return await self._governing.do(order)
                case UpgradeGroup() | WithdrawUpgrade():
                    return await self._upgrading.do(order)
                case TryUpgrade():
                    return await self._trying.do(order)
                case InspectGroup():
                    return await self._recovering.inspect(order)
                case RecoverGroup():
                    return await self._recovering.recover(order)
                case Deafen():
                    return self._deafen(order)
        except HoldfastError as error:
            return OrderRefused.by(error)

    async def _tell(self, order: ShowHistory) -> GroupHistory:
        """What is written, and the view that stands: it says itself why it came to be. And who of its members
        has no object, by their own word."""
        info = await self._creating.info(order.name)
        if info.epoch:
            info = with_lacking(info, await self._recovering.inspected(info))
        history = await self._unkept.history(info)
        stands = await insist(lambda: perform(self._authority, read_view(info.group)), Seen, NoGroup)
        chapters = (Chapter.of(stands.value),) if isinstance(stands, Seen) else ()
        views = map(_view_info, history.with_chapters(chapters).chapters)
        poisoned = (
            GivenUpInfo(at_ns=each.at_ns, request=each.request, call=each.call, attempts=each.attempts)
            for each in history.given_up
        )
        changes = (
            CodeChangeInfo(
                at_ns=each.at_ns, from_code=each.from_code, to_code=each.to_code, position=each.position
            )
            for each in history.code_changes
        )
        return GroupHistory(
            group=info,
            views=tuple(views),
            poisoned=tuple(poisoned),
            code_changes=tuple(changes),
            checkpoints_failed=self._unkept.among(info, history),
        )

    def _deafen(self, order: Deafen) -> Deafened:
        if not self._allows_chaos:
            raise InvalidRequest("this domain was started without chaos: see `holdfast up --no-chaos`")
        if order.is_deaf:
            self._deafness.begin(order.hosts)
        else:
            self._deafness.end(order.hosts)
        return Deafened(host=self._groups.me.host, deaf_to=self._deafness.to)


def _view_info(chapter: Chapter) -> ViewInfo:
    cause, steps = chapter.cause, chapter.steps
    return ViewInfo(
        epoch=chapter.epoch,
        at_ns=cause.at_ns,
        primary=chapter.primary,
        in_sync=chapter.in_sync,
        why=cause.why.value,
        host=cause.host,
        text=cause.text,
        claimed_ms=None if steps is None else _ms(steps.claimed_ns),
        committed_ms=None if steps is None else _ms(steps.committed_ns),
        ready_ms=None if steps is None else _ms(steps.ready_ns),
        replayed=None if steps is None else steps.replayed,
        silent_ms=None if steps is None else _ms(steps.silent_ns),
    )


def _ms(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else round(duration_ns / MILLISECOND, 3)


ORDERS_MAX: Final = 1_000
"""Under way at once. Each asks the authority again and again while that is away."""
QUESTION_S: Final = 20.0
"""Whoever asks waits no longer. What changes something goes on: half an order is worse than a whole one."""

log = structlog.get_logger("holdfast.orders")


class RunningOrders:
    """Of one host, which has them done by *do*."""

    def __init__(self, do: Callable[[Order, Role], Awaitable[OrderAnswer]]) -> None:
        self._do = do
        self._under_way: dict[asyncio.Task[None], None] = {}

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def take(self, connection: Connection, payload: bytes) -> None:
        """Raises ``LaterKind``, and ``msgspec.DecodeError`` for what is no order."""
        number, body = split_number(payload)
        order = decode_order(body)
        if self.under_way >= ORDERS_MAX:
            _answer(connection, number, OrderRefused.by(Overloaded(f"{ORDERS_MAX} orders are under way")))
            return
        task = asyncio.get_running_loop().create_task(self._answered(connection, number, order))
        self._under_way[task] = None
        task.add_done_callback(lambda done: self._under_way.pop(done))

    async def close(self) -> None:
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _answered(self, connection: Connection, number: int, order: Order) -> None:
        try:
            async with asyncio.timeout(QUESTION_S if isinstance(order, Question) else None):
                answer = await self._do(order, connection.peer.role)
        except TimeoutError:
            answer = OrderRefused.by(Unavailable(f"the authority did not answer within {QUESTION_S:g} s"))
        except Exception:
            log.exception("an order failed", order=type(order).__name__)
            said = "the host failed while it did this; its log says why"
            answer = OrderRefused(code=OutcomeUnknown.code, text=said, is_final=False)
        _answer(connection, number, answer)


def _answer(connection: Connection, number: int, answer: OrderAnswer) -> None:
    connection.send(Kind.GROUP_ANSWER, with_number(number, encode_order(answer)))
