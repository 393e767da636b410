"""What a group's creation said of its object.

An object whose class has changed: what made its state, who may go on from it (E7).

A record is executed again only by the code that made it. Where another goes on there is an ``Upgraded`` in
the sequence: the class of that name loads the state as it was there, its method ``upgraded`` brings it up to
date, if it has one, and every member that executes does the same at the same place.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from holdfast.execution.capture import Capture, NoStateAvailable, NotCapturable, attribute_names
from holdfast.execution.context import OnRaised, Scope, scope_now
from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.interface import Interface, interface_of
from holdfast.execution.method import run_own
from holdfast.execution.timers import Timers
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import ClientId, Position
from holdfast.model.outcome import error_in_words


class NotMade(InvalidRequest):
    """Raised when the class's own code raises as it begins: no object can be made here."""

    code = "not_made"


@dataclass(frozen=True)
class Definition:
    """The class of a group's object and how to make one."""

    group: str
    """The group's name."""
    cls: type
    fresh: Callable[[], object]
    """Makes the object as at creation; use :meth:`make`."""
    own: Callable[[object], object] | None = None
    """Where the member is an object that the application made itself (FTC-234): gives it the state of the one
    that was made, and returns it. There is one of it, so what is made for another end is :meth:`apart`."""
    code: Code = UNKNOWN
    """The class as it is here (E7)."""
    created_ns: int = 0
    """When the group was created: the time that ``__init__`` sees, on every member."""
    attempts: CrashSuspicions = field(default_factory=CrashSuspicions, compare=False)
    """What is known of its calls that ended processes, where it is executed (E4)."""
    on_raised: OnRaised | None = field(default=None, compare=False)
    """Told of what its methods raise, where it is executed."""
    interface: Interface = field(init=False)
    capture: Capture = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "interface", interface_of(self.cls))
        object.__setattr__(self, "capture", Capture(self.cls))

    def apart(self) -> "Definition":
        """The same of objects that are not the member: to make one changes nothing here."""
        return self if self.own is None else replace(self, own=None)

    def spare(self) -> object:
        """An object as at creation that is nobody's: to try a state on. What ``__init__`` sets in motion was
        set in motion once, when the group was created. Raises :class:`NotMade`."""
        return self.apart().make(Timers())

    def make(self, timers: Timers) -> object:
        """The object as at creation. ``__init__`` has a context, so that every member makes the same. Raises
        :class:`NotMade`."""
        scope = Scope(self.group, self.interface, timers)
        scope.begin(ClientId(""), 0, self.created_ns)
        token = scope_now.set(scope)
        try:
            made = run_own(self.fresh)
            return made if self.own is None else run_own(self.own, made)
        except Exception as error:
            # It is the user's code, which may fail in any way.
            raise NotMade(f"{self.cls.__name__} cannot be made: {error_in_words(error)}") from error
        finally:
            scope_now.reset(token)

    def make_first(self, timers: Timers) -> object:
        """The object of a group at its beginning, of which a state was asked for once; it may have none to
        give yet. Raises :class:`NotMade`, ``NotCapturable``."""
        instance = self.make(timers)
        try:
            self.capture.check(instance, self.spare, self.code.version)
        except NotCapturable:
            raise
        except NoStateAvailable:
            return instance
        except Exception as error:
            raise NotMade(f"{self.cls.__name__} gives no state: {error_in_words(error)}") from error
        return instance


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
