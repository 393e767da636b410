"""Deadlocks between groups that wait for each other: how one is found, which call gives way (E10).

Theory. An operation that calls another group blocks the queue of its own group until it has the answer. So a
queued call waits for the operation that runs in that group, and that operation waits for the call it made: a
chain of :class:`Waits` from group to group. A call that is refused for lack of room, again and again until
the queue is shorter or a checkpoint frees some of the log, waits as well: neither happens while the operation
runs. If the chain comes back to an operation that is already on it, all of them wait for ever. One call of
the cycle must give way: the call with the youngest root, no matter who finds the cycle and where. So several
finders refuse the same call and no second one.

A probe is a hint that may be lost, late or duplicated at any time (W1). What it says about each link was true
at its own moment, and a link ends only when the next one does: the operation continues when its call is
answered, and the call stays queued until the operation before it has ended. So when a probe comes back to an
operation that still waits for the very call by which the probe left, every link in between is unchanged, and
the cycle is real. Links that end in another way (a call that timed out, another cycle that was broken, a
poisoned operation) can make the information stale. Then at most one call too many is refused. That call has
not begun, which the called group checks in the order of its sequence: a refused call never runs, cycle or
not.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.calls import Client, Number, Request
from holdfast.model.ids import GroupId
from holdfast.model.reference import NAME_CHARACTERS_MAX

PATH_MAX: Final = 64
"""The most operations on the path of one probe. A longer cycle ends when its calls time out."""

Name = Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)]


class Root(Struct, frozen=True, array_like=True, order=True, gc=False):
    """The request, of a client or of a timer, for which all calls of one chain were made. It is identified as
    it was ordered in its group, so that every copy and every replay names it alike. Later roots are
    greater."""

    time_ns: Number
    """When it was ordered, by its group's time."""
    group: Name
    client: Client
    number: Number


class Waits(Struct, frozen=True, array_like=True, gc=False):
    """An operation that waits for a call that it made to another group."""

    group: GroupId
    """The group whose operation waits."""
    name: Name
    client: Client
    number: Number
    """The request number; with *client* it identifies the operation."""
    call: Number
    """The number of the call among those that the operation made."""
    root: Root
    expiration_s: Number
    """When that call expires, by the called group's time."""
    is_unbegun: bool = False
    """Whether that call was seen queued behind the next operation of the path, or refused for lack of room
    until that has ended: it has not begun."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)

    def is_same(self, other: "Waits") -> bool:
        """Whether *other* is the same operation, waiting for the same call."""
        return (self.group, self.client, self.number, self.call) == (
            other.group,
            other.client,
            other.number,
            other.call,
        )


Path = Annotated[tuple[Waits, ...], Meta(min_length=1, max_length=PATH_MAX)]


class Probe(Struct, frozen=True, array_like=True, tag="probe"):
    """To a group's primary: the last operation of *path* waits for this call to you. If the call is queued,
    which operation does it wait for?"""

    group: GroupId
    client: Client
    number: Number
    path: Path

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


class GiveWay(Struct, frozen=True, array_like=True, tag="give_way"):
    """To a group's primary: this call to you is part of a cycle. Refuse it for good if it has still not begun
    because of the operation *behind*."""

    group: GroupId
    client: Client
    number: Number
    expiration_s: Number
    behind: Waits
    circle: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=PATH_MAX)]
    """The names of the groups in the cycle, starting with the one that made the call."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)


def circle_in(path: tuple[Waits, ...], next_one: Waits) -> tuple[Waits, ...]:
    """The part of *path* that *next_one*, for which its last call waits, closes to a cycle; empty if none."""
    for index, each in enumerate(path):
        if each.is_same(next_one):
            return path[index:]
    return ()


def victim(circle: tuple[Waits, ...]) -> int | None:
    """The index of the call that gives way: of those that have not begun, the one with the youngest root."""
    unbegun = [index for index, each in enumerate(circle) if each.is_unbegun]
    return max(unbegun, key=lambda index: circle[index].root, default=None)
