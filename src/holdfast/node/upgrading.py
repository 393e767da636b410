"""Which code groups shall go on with, as people order it of any host (E7)."""

from collections.abc import Callable
from functools import partial

from holdfast.authority.outcome import Seen
from holdfast.authority.recipe import Authority, perform
from holdfast.authority.upgrading import wish_upgrade, withdraw_upgrade
from holdfast.authority.views import NoGroup
from holdfast.model.code import Code
from holdfast.model.code_orders import UpgradeGroup, WithdrawUpgrade
from holdfast.model.errors import NoSuchGroup
from holdfast.model.ids import Nonce
from holdfast.model.orders import GroupList
from holdfast.node.creating import Creating
from holdfast.node.insisting import insist


class Upgrading:
    """Does such orders, through one host."""

    def __init__(self, authority: Authority, creating: Creating, nonces: Callable[[], Nonce]) -> None:
        self._authority = authority
        self._creating = creating
        self._nonces = nonces

    async def do(self, order: UpgradeGroup | WithdrawUpgrade) -> GroupList:
        """It is a wish then; that the group is served by that code shows in what is known of it. Raises
        ``NoSuchGroup``."""
        record, nonce = (await self._creating.found(order.name)).value, self._nonces()
        if isinstance(order, UpgradeGroup):
            code = Code(order.version, order.digest)
            recipe = partial(wish_upgrade, record.group, code, replays=order.replays, nonce=nonce)
        else:
            recipe = partial(withdraw_upgrade, record.group, nonce=nonce)
        done = await insist(lambda: perform(self._authority, recipe()), Seen, NoGroup)
        if isinstance(done, NoGroup):
            raise NoSuchGroup(f"there is no group {order.name!r}")
        return GroupList(groups=(await self._creating.info(order.name),))
