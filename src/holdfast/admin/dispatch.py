"""Routes administrative orders to their handlers, and limits how many run at a time.

:class:`AdminDispatch` executes an order or passes it to the handler for its kind. :class:`RunningOrders`
accepts orders from connections, runs a bounded number at once, and answers each, whatever its outcome.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.admin import audit
from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.explain import Explainer, UnkeptStates, with_lacking
from holdfast.admin.fault_injection import BusyWorkers, PartitionFilter
from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.hosts import HostsAdmin
from holdfast.admin.indexes import IndexesAdmin
from holdfast.admin.members import MembersAdmin
from holdfast.admin.notifier_group import NotifierGroups
from holdfast.admin.objects import ObjectsAdmin
from holdfast.admin.permissions import check_permitted
from holdfast.admin.places import PlacesAdmin
from holdfast.admin.properties import PropertiesAdmin
from holdfast.admin.reconciler import Reconciler
from holdfast.admin.recovery import DomainStateAdmin, RecoveryAdmin
from holdfast.admin.streams import StreamsAdmin
from holdfast.admin.upgrade import UpgradeTrial, UpgradeWishes
from holdfast.authority.driver import insist
from holdfast.authority.history import Chapter
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.authority.views import NoGroup, read_view
from holdfast.machine import MachineClock
from holdfast.machine.real_ports import fresh_nonce
from holdfast.machine.workers import Workers
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
    MoveGroup,
    Order,
    OrderAnswer,
    OrderRefused,
    RecoverGroup,
    RemoveMember,
    SetPrimary,
    ShowHistory,
    ViewInfo,
)
from holdfast.model.admin.hosts import (
    Deafen,
    Deafened,
    DrainHost,
    HostEnds,
    KeepBusy,
    ListHosts,
    RemoveHost,
    RestartHost,
    ReturnHost,
)
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
from holdfast.model.admin.streams import LoseStream, StreamOrder
from holdfast.model.admin.upgrades import CodeChangeInfo, TryUpgrade, UpgradeGroup, WithdrawUpgrade
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import MILLISECOND, HostId
from holdfast.net import Role

if TYPE_CHECKING:
    from holdfast.groups.host_groups import HostGroups
import asyncio
from collections.abc import Awaitable
from typing import Final

import structlog

from holdfast.model.admin.groups import Question, decode_order, encode_order
from holdfast.model.errors import OutcomeUnknown, Overloaded, Unavailable
from holdfast.net import Connection, Kind, split_number, with_number


class AdminDispatch:
    """Executes administrative orders. *allows_chaos* also admits those that break something."""

    def __init__(
        self,
        groups: "HostGroups",
        authority: Authority,
        groups_admin: GroupsAdmin,
        notifiers: NotifierGroups,
        partition: PartitionFilter,
        reconciler: Reconciler,
        control: ControlPlane,
        hosts: Sequence[HostId],
        workers: Workers,
        *,
        allows_chaos: bool,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        """*stop* ends this host's process in an orderly way."""
        self._groups = groups
        self._authority = authority
        self._groups_admin = groups_admin
        self._members_admin = MembersAdmin(groups, authority, control, groups_admin, fresh_nonce)
        self._objects = ObjectsAdmin(
            groups.domain, groups.catalog, control, groups_admin, self._members_admin
        )
        self._places = PlacesAdmin(groups_admin, control, lambda: groups.catalog.sessions)
        self._properties = PropertiesAdmin(control, groups_admin, notifiers)
        self._upgrades = UpgradeWishes(authority, groups_admin, fresh_nonce)
        self._upgrade_trial = UpgradeTrial(groups, groups_admin)
        self._recovery_admin = RecoveryAdmin(groups.recovery, groups_admin)
        self._unkept = UnkeptStates(groups.catalog, authority)
        self._explainer = Explainer(
            groups.catalog, groups_admin, self._recovery_admin, reconciler, self._unkept
        )
        self._hosts = HostsAdmin(groups.catalog, control, hosts)
        self._indexes = IndexesAdmin(groups.catalog, control, authority)
        self.streams = StreamsAdmin(
            groups.me.host, groups.catalog, authority, fresh_nonce, MachineClock().wall
        )
        self._domain_state = DomainStateAdmin(groups.me.host, groups.catalog, control)
        self._partition = partition
        self._busy = BusyWorkers(groups.me.host, workers)
        self._allows_chaos = allows_chaos
        self._stop = stop

    async def do(self, order: Order, by: Role) -> OrderAnswer:
        """Execute the order, however long the authority takes."""
        try:
            check_permitted(order, by)
            match order:
                case CreateGroup() | DeleteGroup() | ListGroups():
                    return await self._groups_admin.do(order)
                case MoveGroup():
                    return await self._places.move(order)
                case AddMember() | RemoveMember() | SetPrimary():
                    return await self._members_admin.do(order)
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
                    return await self._explainer.explain(order)
                case ListHosts():
                    return self._hosts.list()
                case ListIndexes():
                    return self._indexes.shown()
                case ListTransactions():
                    return await self._indexes.transactions(order.limit)
                case ShowHistory():
                    return await self._tell(order)
                case CreateIndex() | DropIndexes():
                    return await self._indexes.do(order)
                case DrainHost():
                    return await self._hosts.drain(order)
                case RemoveHost():
                    return await self._hosts.remove(order)
                case ReturnHost():
                    return await self._hosts.take_back(order)
                case RestartHost():
                    return self._restart(order)
                case InspectDomain() | RecoverDomain():
                    return await self._domain_state.do(order)
                case UpgradeGroup() | WithdrawUpgrade():
                    return await self._upgrades.do(order)
                case TryUpgrade():
                    return await self._upgrade_trial.do(order)
                case InspectGroup():
                    return await self._recovery_admin.inspect(order)
                case RecoverGroup():
                    return await self._recovery_admin.recover(order)
                case Deafen():
                    self._check_chaos()
                    return self._deafen(order)
                case KeepBusy():
                    self._check_chaos()
                    return await self._busy.do(order)
                case _ if isinstance(order, StreamOrder):
                    if isinstance(order, LoseStream):
                        self._check_chaos()
                    return await self.streams.do(order)
        except HoldfastError as error:
            return OrderRefused.by(error)

    async def _tell(self, order: ShowHistory) -> GroupHistory:
        """The written history plus the current view, which states its own cause.

        It also lists the members that report having no object.
        """
        info = await self._groups_admin.info(order.name)
        if info.epoch:
            info = with_lacking(info, await self._recovery_admin.inspected(info))
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

    def _restart(self, order: RestartHost) -> HostEnds:
        me = self._groups.me
        if order.host != me.host:
            raise InvalidRequest(f"this is {me.host}; {order.host} itself must be told to end")
        if order.incarnation == me.incarnation:
            self._stop()
        return HostEnds(host=me.host, incarnation=me.incarnation)

    def _check_chaos(self) -> None:
        if not self._allows_chaos:
            raise InvalidRequest("this domain was started without chaos: see `holdfast up --no-chaos`")

    def _deafen(self, order: Deafen) -> Deafened:
        if order.is_deaf:
            self._partition.begin(order.hosts)
        else:
            self._partition.end(order.hosts)
        return Deafened(host=self._groups.me.host, deaf_to=self._partition.to)


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
"""How many orders may run at once. Each keeps asking the authority while that is away."""
QUESTION_S: Final = 20.0
"""A client waits no longer for the answer to a question. An order that changes something continues, because
half an order is worse than a whole one."""

log = structlog.get_logger("holdfast.orders")


class RunningOrders:
    """The orders that one host is executing with *do*."""

    def __init__(self, do: Callable[[Order, Role], Awaitable[OrderAnswer]]) -> None:
        self._do = do
        self._under_way: dict[asyncio.Task[None], None] = {}

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def take(self, connection: Connection, payload: bytes) -> None:
        """Accept an order. Raises ``LaterKind``, or ``msgspec.DecodeError`` if it cannot be decoded."""
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
        if not isinstance(order, Question):
            _write_down(connection, order, answer)
        _answer(connection, number, answer)


def _write_down(connection: Connection, order: Order, answer: OrderAnswer) -> None:
    """Log each admin action, done or refused, as the HTTP door does."""
    how = answer.code if isinstance(answer, OrderRefused) else "done"
    found = {each: str(getattr(order, each, "")) for each in ("name", "host", "hosts")}
    about = {each: quote(value) for each, value in found.items() if value}
    by, peer = str(connection.peer), connection.address.host
    audit.write_down(audit.action_of(order), door="native", by=by, peer=peer, how=how, **about)


def _answer(connection: Connection, number: int, answer: OrderAnswer) -> None:
    connection.send(Kind.GROUP_ANSWER, with_number(number, encode_order(answer)))
