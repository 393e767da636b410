"""Defines how a group's object is made, and how a changed class continues from an existing state (E7).

:class:`Definition` holds what the group's creation specified: the class and how to construct the object.

A record is executed again only by the code that made it. Where other code takes over, the sequence contains
an ``Upgraded`` record: the new class loads the state at that position, its optional method ``upgraded``
brings the state up to date (:func:`bring_up_to_date`), and every executing member does the same at the same
position.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from holdfast.execution.annex import Annex
from holdfast.execution.capture import Capture, NoStateAvailable, NotCapturable, attribute_names
from holdfast.execution.context import OnRaised, Scope, scope_now
from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.interface import Interface, interface_of
from holdfast.execution.method import run_own
from holdfast.execution.stored import ObjectFiles, StoredCapture, capture_of
from holdfast.execution.timers import Timers
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import ClientId, Position
from holdfast.model.outcome import error_in_words


class NotMade(InvalidRequest):
    """Raised when the class's own code fails while it constructs the object, so no object can be made
    here."""

    code = "not_made"


@dataclass(frozen=True)
class Definition:
    """The class of a group's object, and how to make one."""

    group: str
    """The group's name."""
    cls: type
    fresh: Callable[[], object]
    """Makes the object as at creation; use :meth:`make` instead of calling it directly."""
    own: Callable[[object], object] | None = None
    """Set if the member is an object that the application made itself (FTC-234): copies the state of the
    newly made object into the application's object and returns that. There is only one such object, so
    objects for other purposes are made by :meth:`apart`."""
    code: Code = UNKNOWN
    """The version of the class that is loaded here (E7)."""
    created_ns: int = 0
    """When the group was created: the time that ``__init__`` sees, on every member."""
    attempts: CrashSuspicions = field(default_factory=CrashSuspicions, compare=False)
    """The calls suspected of crashing processes, on the member that executes (E4)."""
    on_raised: OnRaised | None = field(default=None, compare=False)
    """Called with what its methods raise, on the member that executes."""
    annexes: tuple[Annex, ...] = field(default=(), compare=False)
    """What other packages add to the group, on this member (W9)."""
    files: ObjectFiles | None = field(default=None, compare=False)
    """Where the object of a stored class has its database; None where no such object can be made (W7)."""
    interface: Interface = field(init=False)
    capture: Capture = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "interface", interface_of(self.cls))
        object.__setattr__(self, "capture", capture_of(self.cls))
        if self.is_stored and self.interface.has_slow:
            raise NotCapturable(f"{self.cls.__name__} is a stored class, so its methods cannot be @slow")

    @property
    def is_stored(self) -> bool:
        """Whether the object has a database of its own (W7)."""
        return isinstance(self.capture, StoredCapture)

    def apart(self) -> "Definition":
        """Return this definition without *own* and *files*: objects made from it do not touch the
        application's object, nor the database of this member's."""
        is_apart = self.own is None and self.files is None
        return self if is_apart else replace(self, own=None, files=None)

    def spare(self) -> object:
        """Make an object as at creation that belongs to nobody, to try a state on. The timers that
        ``__init__`` sets are discarded: they were set when the group was created. Raises :class:`NotMade`."""
        return self.apart().make(Timers())

    def make(self, timers: Timers) -> object:
        """Make the object as at creation. ``__init__`` runs with a context, so that every member makes the
        same object. Raises :class:`NotMade`."""
        scope = Scope(self.group, self.interface, timers)
        scope.begin(ClientId(""), 0, self.created_ns)
        token = scope_now.set(scope)
        try:
            made = run_own(self.fresh)
            return made if self.own is None else run_own(self.own, made)
        except Exception as error:
            # This is the user's code, which may fail in any way.
            raise NotMade(f"{self.cls.__name__} cannot be made: {error_in_words(error)}") from error
        finally:
            scope_now.reset(token)

    def make_first(self, timers: Timers) -> object:
        """Make the object of a new group and check that its state can be captured; it may have no state
        available yet. Raises :class:`NotMade`, ``NotCapturable``."""
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
"""The optional method of a class that runs at an upgrade. Callers cannot reach it."""
NAMED_MAX: Final = 5
"""At most this many missing names are listed in an error message."""
_CLIENT: Final = ClientId("upgrade/")
"""The client under which upgrades run. No real client's id contains a slash."""


class OtherCode(HoldfastError):
    """Raised when a record made by other code would have to be executed: this object cannot continue."""

    code = "other_code"

    def __init__(self, position: Position, made_by: Code, here: Code) -> None:
        super().__init__(f"position {position} was made by {made_by}; here is {here}")
        self.position = position
        self.made_by = made_by
        self.here = here


class CannotUpgrade(InvalidRequest):
    """Raised when the class loaded here cannot continue from the state that other code has left."""

    code = "cannot_upgrade"


def bring_up_to_date(
    definition: Definition, instance: Any, timers: Timers, from_code: Code, position: Position, time_ns: int
) -> None:
    """Let *instance*, which the class of *definition* has loaded, continue where *from_code* ended: run its
    method ``upgraded`` and check the result. Raises :class:`CannotUpgrade`."""
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
    """Check that the object has all attributes of a new one, and that the method of every timer exists.
    Raises :class:`CannotUpgrade`."""
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
