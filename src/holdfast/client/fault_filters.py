"""A filter at the notifier, with the methods of the source (CosNotifyFilter::Filter, FTC-270)."""

from collections.abc import Sequence

from holdfast.client.notifier import NotifierGroup
from holdfast.faults.events import StructuredEvent
from holdfast.faults.filters import ConstraintExp, ConstraintId, ConstraintInfo
from holdfast.faults.filters.constraints import Compiled
from holdfast.faults.notifier import Notifier


class SubscriptionFilter:
    """Made by ``create_subscription_filter``. It lives at the notifier, until it is destroyed."""

    def __init__(self, number: int, notifier: NotifierGroup) -> None:
        self.number = number
        self._notifier = notifier

    async def constraint_grammar(self) -> str:
        return await self._notifier.ask(Notifier.constraint_grammar, self.number)

    async def add_constraints(self, expressions: Sequence[ConstraintExp]) -> list[ConstraintInfo]:
        """All of them or none. Raises ``InvalidConstraint``, which names the first that is not right."""
        _check(expressions)
        return await self._notifier.ask(Notifier.add_constraints, self.number, [*expressions])

    async def modify_constraints(
        self, delete: Sequence[ConstraintId], modify: Sequence[ConstraintInfo]
    ) -> None:
        """All of it or nothing. Raises ``InvalidConstraint``, ``ConstraintNotFound``."""
        _check([each.constraint_expression for each in modify])
        await self._notifier.ask(Notifier.modify_constraints, self.number, [*delete], [*modify])

    async def get_constraints(self, ids: Sequence[ConstraintId]) -> list[ConstraintInfo]:
        """Raises ``ConstraintNotFound``."""
        return await self._notifier.ask(Notifier.get_constraints, self.number, [*ids])

    async def get_all_constraints(self) -> list[ConstraintInfo]:
        return await self._notifier.ask(Notifier.get_all_constraints, self.number)

    async def remove_all_constraints(self) -> None:
        await self._notifier.ask(Notifier.remove_all_constraints, self.number)

    async def destroy(self) -> None:
        await self._notifier.ask(Notifier.destroy_filter, self.number)

    async def match_structured(self, event: StructuredEvent) -> bool:
        return await self._notifier.ask(Notifier.match_structured, self.number, event)


def _check(expressions: Sequence[ConstraintExp]) -> None:
    """Before anything is sent, so that a mistake is pointed at as it is anywhere else."""
    for each in expressions:
        Compiled.of(each)
