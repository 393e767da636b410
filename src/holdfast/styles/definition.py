"""What a group's creation said of its object."""

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.styles.capture import Capture
from holdfast.styles.interface import Interface


@dataclass(frozen=True)
class Definition:
    """The class of a group's object and how to make one."""

    group: str
    """The group's name."""
    cls: type
    fresh: Callable[[], object]
    """Makes the object as at creation."""
    version: str = ""
    """Of the class (E7)."""
    interface: Interface = field(init=False)
    capture: Capture = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "interface", Interface(self.cls))
        object.__setattr__(self, "capture", Capture(self.cls))
