"""What a group's creation said of its object."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from holdfast.model.code import UNKNOWN, Code
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ClientId
from holdfast.model.outcome import error_in_words
from holdfast.styles.attempts import Attempts
from holdfast.styles.capture import Capture, NoStateAvailable, NotCapturable
from holdfast.styles.context import OnRaised, Scope, scope_now
from holdfast.styles.interface import Interface, interface_of
from holdfast.styles.own_code import run_own
from holdfast.styles.timers import Timers


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
    attempts: Attempts = field(default_factory=Attempts, compare=False)
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
