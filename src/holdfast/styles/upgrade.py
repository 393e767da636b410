"""An object whose class has changed: what made its state, who may go on from it (E7).

A record is executed again only by the code that made it. Where another goes on there is an ``Upgraded`` in
the sequence: the class of that name loads the state as it was there, its method ``upgraded`` brings it up to
date, if it has one, and every member that executes does the same at the same place.
"""

from typing import Any, Final

from holdfast.model.code import Code
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import ClientId, Position
from holdfast.model.outcome import error_in_words
from holdfast.styles.capture import attribute_names
from holdfast.styles.context import Scope, scope_now
from holdfast.styles.definition import Definition
from holdfast.styles.own_code import run_own
from holdfast.styles.timers import Timers

UPGRADED: Final = "upgraded"
"""The method that a class may have for this; nobody else calls it."""
NAMED_MAX: Final = 5
"""Of what is missing, so much is named."""
_CLIENT: Final = ClientId("upgrade/")
"""No client's id has a slash."""


class OtherCode(HoldfastError):
    """Raised when a record is to be executed that other code has made: this object cannot go on."""

    code = "other_code"

    def __init__(self, position: Position, made_by: Code, here: Code) -> None:
        super().__init__(f"position {position} was made by {made_by}; here is {here}")
        self.position = position
        self.made_by = made_by
        self.here = here


class CannotUpgrade(InvalidRequest):
    """Raised when the class as it is here cannot go on from the state that other code has left."""

    code = "cannot_upgrade"


def bring_up_to_date(
    definition: Definition, instance: Any, timers: Timers, from_code: Code, position: Position, time_ns: int
) -> None:
    """Let an object that the class of *definition* has loaded go on where *from_code* ended. Raises
    :class:`CannotUpgrade`."""
    method = getattr(instance, UPGRADED, None)
    if callable(method):
        scope = Scope(definition.group, definition.interface, timers)
        scope.begin(_CLIENT, position, time_ns)
        token = scope_now.set(scope)
        try:
            run_own(method, from_code.version)
        except Exception as error:
            raise CannotUpgrade(
                f"{definition.cls.__name__}.{UPGRADED} failed: {error_in_words(error)}"
            ) from error
        finally:
            scope_now.reset(token)
    check_whole(definition, instance, timers)


def check_whole(definition: Definition, instance: object, timers: Timers) -> None:
    """That the object has what a new one has, and that every timer finds its method. Raises
    :class:`CannotUpgrade`."""
    name = definition.cls.__name__
    made = definition.apart().make(Timers())
    missing = sorted(set(attribute_names(made)) - set(attribute_names(instance)))
    if missing:
        raise CannotUpgrade(
            f"the state has no {_some(missing)}, which a new {name} has: "
            f"set what is missing in {name}.{UPGRADED}(self, from_version)"
        )
    lost = sorted(timers.methods() - set(definition.interface.operations))
    if lost:
        raise CannotUpgrade(f"timers are set for {_some(lost)}, which {name} does not have")


def _some(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
