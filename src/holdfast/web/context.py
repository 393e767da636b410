"""What every handler uses: the host behind the door, once it serves.

:class:`WebOrders` gives orders to the same dispatch as the native protocol.
"""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

from holdfast.admin.dispatch import AdminDispatch
from holdfast.client.domain import Domain
from holdfast.client.faults import Faults
from holdfast.model.admin.groups import Answer, Order, OrderAnswer, OrderRefused, Question
from holdfast.model.errors import OutcomeUnknown, Overloaded, Unavailable
from holdfast.net import Role
from holdfast.node.gateway import HostContext
from holdfast.web.access import AccessPolicy
from holdfast.web.calls import HttpCalls
from holdfast.web.coordinator import Coordinated, CoordinatorRedirect, NoCoordinator
from holdfast.web.metrics import Metrics
from holdfast.web.problems import busy, refusal_of_order
from holdfast.web.settings import ORDER_S, ORDERS_MAX

Given = TypeVar("Given", bound=Answer)


class WebOrders:
    """The orders that came through one door."""

    def __init__(self, admin_dispatch: AdminDispatch) -> None:
        self._admin_dispatch = admin_dispatch
        self._under_way: dict[asyncio.Task[OrderAnswer], None] = {}

    async def give(self, order: Order, by: Role, kind: type[Given]) -> Given:
        """Execute *order*; its answer is of *kind*.

        Raises :class:`.problems.Refusal` if it was refused, ``OutcomeUnknown`` if it may yet be done, and
        ``Unavailable`` or ``Overloaded`` if it was not done.
        """
        if len(self._under_way) >= ORDERS_MAX:
            raise Overloaded(f"{len(self._under_way)} orders are under way")
        task = asyncio.get_running_loop().create_task(self._admin_dispatch.do(order, by))
        self._under_way[task] = None
        task.add_done_callback(lambda done: self._under_way.pop(done))
        await asyncio.wait((task,), timeout=ORDER_S)
        if not task.done():
            if isinstance(order, Question):
                task.cancel()
                raise Unavailable(f"the authority did not answer within {ORDER_S:g} s")
            raise OutcomeUnknown("the order", waited_s=ORDER_S)
        answer = task.result()
        if isinstance(answer, OrderRefused):
            raise refusal_of_order(answer)
        assert isinstance(answer, kind)  # each order has one kind of answer
        return answer

    async def close(self) -> None:
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Inside:
    """A serving host, as the handlers of requests see it."""

    host_context: HostContext
    calls: HttpCalls
    orders: WebOrders
    faults: Faults


class WebContext:
    """The state shared by all handlers of one door."""

    def __init__(
        self, policy: AccessPolicy, metrics: Metrics, leadership: CoordinatorRedirect | None = None
    ) -> None:
        self.policy = policy
        self.metrics = metrics
        self.leadership: CoordinatorRedirect = leadership or NoCoordinator()
        """Who is coordinator; known from the host's control plane once the host serves."""
        self.requests = 0
        """How many requests are being answered now."""
        self.body_bytes = 0
        """The bytes of all request bodies that are being read now."""
        self.streams = 0
        self._inside: Inside | None = None

    @property
    def is_serving(self) -> bool:
        return self._inside is not None

    @property
    def inside(self) -> Inside:
        """The serving host. Raises :class:`.problems.Refusal` while it is still starting."""
        if self._inside is None:
            raise busy("this host is still starting", "starting")
        return self._inside

    def on_serving(self, host_context: HostContext, domain: Domain) -> None:
        self._inside = Inside(
            host_context,
            HttpCalls(domain, host_context),
            WebOrders(host_context.admin_dispatch),
            domain.faults,
        )
        self.leadership = Coordinated(host_context.control, host_context.groups.catalog)
        self.metrics.watch(host_context)

    async def close(self) -> None:
        inside, self._inside = self._inside, None
        if inside is not None:
            await inside.orders.close()
