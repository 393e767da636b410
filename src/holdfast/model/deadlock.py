"""Groups that wait for each other in a circle: what is said about them, and who gives way (E10).

Theory. An operation that calls another group holds up the line of its own until it has the answer. So a call
that stands in line waits for the operation that runs there, and that one for the call it made: a chain of
:class:`Waits`, from group to group. Where the chain comes back to an operation that is on it already, all of
them wait for ever. One call of the circle must give way: the one of the youngest root, whoever finds the
circle and wherever it is entered, so that several who find it refuse the same call and no second one.

A probe is a hint: lost, late or twice at any time (W1). What it says of each link was true at its own moment,
and a link ends only when the next one does: the operation goes on when its call is answered, and the call
stands in line until the operation before it has ended. So when a probe comes back to an operation that still
waits for the very call by which the probe left, every link between is as it was; the circle is real. Links
that end otherwise (a call that has timed out, another circle that was broken, a poisoned operation) can make
the news stale: then a call is refused at most once too often. It is a call that has not begun, which the
called group checks where everything is ordered: what is refused never runs, circle or not.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.calls import Client, Number, Request
from holdfast.model.ids import GroupId
from holdfast.model.reference import NAME_CHARACTERS_MAX

PATH_MAX: Final = 64
"""Operations on the way of one probe. A longer circle ends when its calls do."""

Name = Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)]


class Root(Struct, frozen=True, array_like=True, order=True, gc=False):
    """The request that all calls of one chain were made for: of a client, or of a timer. It is named as it
    was ordered in its group, so that every copy and every replay names it alike; a later one is greater."""

    time_ns: Number
    """By its group's time."""
    group: Name
    client: Client
    number: Number


class Waits(Struct, frozen=True, array_like=True, gc=False):
    """An operation that waits for a call which it made to another group."""

    group: GroupId
    """Whose operation it is."""
    name: Name
    client: Client
    number: Number
    """With *client*, the operation."""
    call: Number
    """Which of its calls."""
    root: Root
    is_in_line: bool = False
    """Whether that call was seen to stand in line, unbegun, behind the next operation of the path."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)

    def is_same(self, other: "Waits") -> bool:
        """Whether that is the same operation, waiting for the same call."""
        return (self.group, self.client, self.number, self.call) == (
            other.group,
            other.client,
            other.number,
            other.call,
        )


Path = Annotated[tuple[Waits, ...], Meta(min_length=1, max_length=PATH_MAX)]


class Probe(Struct, frozen=True, array_like=True, tag="probe"):
    """To a group's primary: the last operation of *path* waits for this call to you. If it stands in line,
    whom does that wait for?"""

    group: GroupId
    client: Client
    number: Number
    path: Path

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


class GiveWay(Struct, frozen=True, array_like=True, tag="give_way"):
    """To a group's primary: this call to you waits in a circle. If it still stands in line behind the
    operation *behind*, refuse it."""

    group: GroupId
    client: Client
    number: Number
    behind: Waits
    circle: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=PATH_MAX)]
    """The names of the groups, beginning with the one that made the call."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


def circle_in(path: tuple[Waits, ...], next_one: Waits) -> tuple[Waits, ...]:
    """The part of *path* that *next_one*, for which its last call waits, closes to a circle; or nothing."""
    for index, each in enumerate(path):
        if each.is_same(next_one):
            return path[index:]
    return ()


def victim(circle: tuple[Waits, ...]) -> int | None:
    """Which of the circle's calls gives way: of those that have not begun, the one of the youngest root."""
    unbegun = [index for index, each in enumerate(circle) if each.is_in_line]
    return max(unbegun, key=lambda index: circle[index].root, default=None)
