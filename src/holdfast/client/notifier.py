"""The notifier's group, as a client calls it: found when it is first needed, asked again when it moves."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from holdfast.client.ordering import Give
from holdfast.client.proxy import Group
from holdfast.faults.consumers import Disconnected, TooManyConsumers
from holdfast.faults.events import InvalidEvent
from holdfast.faults.filters import ConstraintNotFound, FilterDestroyed, InvalidGrammar
from holdfast.faults.notifier import Notifier
from holdfast.faults.ring import NoSuchNumber
from holdfast.model.errors import HoldfastError, NoSuchGroup, OutcomeUnknown, Unavailable
from holdfast.model.fitting import ResultDoesNotFit
from holdfast.model.outcome import MethodRaised
from holdfast.model.property_orders import FaultNotifierShown, ShowFaultNotifier
from holdfast.styles.interface import QUERY_MARK

P = ParamSpec("P")
R = TypeVar("R")

RETRY_S: Final = 0.2


class OpenGroup(Protocol):
    """As ``Domain.group``."""

    def __call__(self, name: str, cls: type[Notifier]) -> Awaitable[Group[Notifier]]: ...


class NotifierGroup:
    """The fault notifier of a domain (FTC-245)."""

    def __init__(self, give: Give, open_group: OpenGroup) -> None:
        self._give = give
        self._open_group = open_group
        self._group: Group[Notifier] | None = None

    async def ask(
        self, method: Callable[Concatenate[Notifier, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """What a method of the notifier returns. A question is asked until it is answered, however long the
        group takes to have a primary again. Raises what the method raises."""
        while True:
            try:
                group = await self._found()
                return await group.call(method, *args, **kwargs)
            except MethodRaised as error:
                raise _as_raised(error) from None
            except NoSuchGroup:
                self._group = None  # it was removed, or another was registered
            except (Unavailable, OutcomeUnknown):
                if not getattr(method, QUERY_MARK, False):
                    raise
            await asyncio.sleep(RETRY_S)

    async def tell(
        self, method: Callable[Concatenate[Notifier, P], Any], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Have it executed, as :meth:`ask`, whatever it returns: a notifier that somebody else registered has
        the source's methods, which return nothing."""
        with suppress(ResultDoesNotFit):
            await self.ask(method, *args, **kwargs)

    async def _found(self) -> Group[Notifier]:
        if self._group is None:
            shown = await self._give(ShowFaultNotifier(is_made=True), FaultNotifierShown)
            self._group = await self._open_group(shown.group, Notifier)
        return self._group


def _as_raised(error: MethodRaised) -> HoldfastError:
    """The notifier's own exception, as callers of the same thing here would get it."""
    make = _RAISED.get(error.type_name.rpartition(".")[2])
    return error if make is None else make(error.text)


def _not_found(text: str) -> ConstraintNotFound:
    digits = text.rpartition(" ")[2]
    return ConstraintNotFound(int(digits) if digits.isdigit() else 0)


_RAISED: Final[dict[str, Callable[[str], Any]]] = {
    "InvalidGrammar": InvalidGrammar,
    "FilterDestroyed": FilterDestroyed,
    "ConstraintNotFound": _not_found,
    "Disconnected": Disconnected,
    "TooManyConsumers": TooManyConsumers,
    "NoSuchNumber": NoSuchNumber,
    "InvalidEvent": InvalidEvent,
}
