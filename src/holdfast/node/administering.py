"""What people order of a host besides making groups: tell a history, recover, be deaf."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.authority.history import Chapter
from holdfast.authority.outcome import Seen
from holdfast.authority.recipe import Authority, perform
from holdfast.authority.views import NoGroup, read_view
from holdfast.machine.randomness import fresh_nonce
from holdfast.model.code_orders import CodeChangeInfo, TryUpgrade, UpgradeGroup, WithdrawUpgrade
from holdfast.model.domain_orders import InspectDomain, RecoverDomain
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.host_orders import Deafen, Deafened, DrainHost, ListHosts, RemoveHost
from holdfast.model.ids import HostId
from holdfast.model.index_orders import CreateIndex, DropIndexes, ListIndexes, ListTransactions
from holdfast.model.object_orders import (
    CreateMember,
    CreateObject,
    DeleteObject,
    ListFactories,
    ShowReference,
)
from holdfast.model.orders import (
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
from holdfast.model.property_orders import (
    RegisterFaultNotifier,
    RemoveProperties,
    SetProperties,
    ShowFaultNotifier,
    ShowProperties,
)
from holdfast.model.units import MILLISECOND
from holdfast.net import Role
from holdfast.node.control import Control
from holdfast.node.creating import Creating
from holdfast.node.deafness import Deafness
from holdfast.node.emptying import Emptying
from holdfast.node.explaining import Explaining, with_lacking
from holdfast.node.governing import Governing
from holdfast.node.indexing import Indexing
from holdfast.node.insisting import insist
from holdfast.node.managing import Managing
from holdfast.node.notifying import Notifying
from holdfast.node.objects import Objects
from holdfast.node.permission import check_permitted
from holdfast.node.placing import Placing
from holdfast.node.propertying import Propertying
from holdfast.node.recovering import Recovering
from holdfast.node.trying import Trying
from holdfast.node.unkept import UnkeptStates
from holdfast.node.upgrading import Upgrading

if TYPE_CHECKING:
    from holdfast.housing.groups import Groups


class Administering:
    """Does the orders of people, through one host. *allows_chaos*: also those that break something."""

    def __init__(
        self,
        groups: "Groups",
        authority: Authority,
        creating: Creating,
        notifying: Notifying,
        deafness: Deafness,
        managing: Managing,
        control: Control,
        hosts: Iterable[HostId],
        *,
        allows_chaos: bool,
    ) -> None:
        self._groups = groups
        self._authority = authority
        self._creating = creating
        self._placing = Placing(groups, authority, control, creating, fresh_nonce)
        self._objects = Objects(groups.domain, groups.directory, control, creating, self._placing)
        self._properties = Propertying(control, creating, notifying)
        self._upgrading = Upgrading(authority, creating, fresh_nonce)
        self._trying = Trying(groups, creating)
        self._recovering = Recovering(groups.recovery, creating)
        self._unkept = UnkeptStates(groups.directory, authority)
        self._explaining = Explaining(groups.directory, creating, self._recovering, managing, self._unkept)
        self._hosts = Emptying(groups.directory, control, hosts)
        self._indexing = Indexing(groups.directory, control, authority)
        self._governing = Governing(groups.me.host, groups.directory, control)
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
