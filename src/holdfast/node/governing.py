"""The domain's own state, as people look at it and have it recovered (T4)."""

from holdfast.housing.directory import GroupDirectory
from holdfast.model.domain_orders import DomainInspected, DomainOrder, RecoverDomain
from holdfast.model.errors import Rejected, Unavailable
from holdfast.model.ids import HostId
from holdfast.node.control import Control
from holdfast.node.wishing import granted


class Governing:
    """Through one host, about what that one holds."""

    def __init__(self, host: HostId, directory: GroupDirectory, control: Control) -> None:
        self._host = host
        self._directory = directory
        self._control = control

    async def do(self, order: DomainOrder) -> DomainInspected:
        """Raises ``Rejected`` when it is not to be done, ``Unavailable`` without the authority."""
        if isinstance(order, RecoverDomain):
            await self._recover(order)
        return await self._inspected()

    async def _recover(self, order: RecoverDomain) -> None:
        if order.cas != self._control.cas:
            raise Rejected(f"{self._host} holds the wishes of {self._control.cas}, not of {order.cas}")
        granted(await self._control.recover(self._directory.records))

    async def _inspected(self) -> DomainInspected:
        committed = await self._control.committed_cas()
        if committed is None:
            raise Unavailable("the authority does not answer")
        return DomainInspected(
            host=self._host,
            role=self._control.role.value,
            cas=self._control.cas,
            committed_cas=committed,
            coordinator=self._control.coordinator or HostId(""),
            term=self._control.term,
        )
