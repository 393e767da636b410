"""The scenario's classes in each version of the application, and the record of which host has which version.

All versions do the same for their callers, and each notes which version did it. So it shows when another
version executes again what was answered once. Two versions declare the same version string and differ. One
keeps its notes in another attribute, and moves them when it takes over. One cannot take over from any other.

:class:`Deploys` records which host has which version, which versions it has had, and which version gave each
answer.
"""

from typing import ClassVar, Final

import msgspec

from holdfast.execution.capture import InvalidState
from holdfast.execution.context import context
from holdfast.model.code import Code
from holdfast.model.ids import HostId
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.groups.objects import LISTS, Tokens

NOTES: Final = ("marks", "labels")
"""The attributes that contain the notes in one version or another."""


class Coded(Tokens):
    """What all versions have in common."""

    label: ClassVar[str]
    """Identifies the version."""
    version: ClassVar[str]
    """The version string that the class declares."""
    holds: ClassVar[str] = "marks"
    marks: list[str]
    labels: list[str]
    upgrades: list[tuple[str, str]]
    """Each takeover: the version before, and the version that took over."""

    def __init__(self) -> None:
        super().__init__()
        self.upgrades = []
        setattr(self, self.holds, [])

    def noted(self) -> list[str]:
        """Return which version appended each token, in the order of the tokens."""
        found: list[str] = getattr(self, self.holds)
        return found

    def upgraded(self, from_version: str) -> None:
        self.upgrades.append((from_version, self.version))
        for name in NOTES:
            if name != self.holds and hasattr(self, name):
                setattr(self, self.holds, getattr(self, name))
                delattr(self, name)

    def append(self, token: str) -> tuple[str, int, str]:  # type: ignore[override]  # returns the version too
        return token, self._add(token), self.label

    def fail(self, token: str) -> None:
        raise ValueError(f"{token}@{self._add(token)}@{self.label}")

    def later(self, token: str, delay_s: float) -> tuple[str, int, str]:  # type: ignore[override]  # as above
        context.call_later(delay_s, self.ring, token)
        return self.append(token)

    async def relay(  # type: ignore[override]  # as above
        self, token: str, to: list[str], timeout_s: float | None = None, through: str = ""
    ) -> tuple[str, int, str]:
        place = self._add(token)
        for index, name in enumerate(to):
            is_through = bool(through) and index == len(to) - 1
            await self._have_noted(name, f"{token}>{index}", timeout_s, through if is_through else "")
        return token, place, self.label

    def _add(self, token: str) -> int:
        self.tokens.append(token)
        self.noted().append(self.label)
        return len(self.tokens)


class One(Coded):
    label, version = "1", "1"


class Two(Coded):
    label, version = "2", "2"


class OtherTwo(Coded):
    """A version whose author forgot to declare a new version string."""

    label, version = "2b", "2"


class Three(Coded):
    label, version = "3", "3"
    holds = "labels"


class Four(Coded):
    """A version that needs an attribute that only its own constructor sets, so it cannot take over."""

    label, version = "4", "4"

    def __init__(self) -> None:
        super().__init__()
        self.needed = True


class CodedLedger(Coded):
    """A class that provides its own state and the changes of it."""

    def __init__(self) -> None:
        super().__init__()
        self._told = dict.fromkeys(self._lists(), 0)

    def _lists(self) -> tuple[str, ...]:
        return (*LISTS, "upgrades", self.holds)

    def get_state(self) -> bytes:
        self._told = dict.fromkeys(self._lists(), 0)
        return self.get_update()

    def set_state(self, state: bytes, version: str) -> None:
        found = msgspec.msgpack.decode(state)
        Coded.__init__(self)
        for name in NOTES:
            if name != self.holds and name in found:
                if version == self.version:
                    raise InvalidState(f"a state of version {version} has {name}")
                found[self.holds] = found.pop(name)
        self.set_update(msgspec.msgpack.encode(found))

    def get_update(self) -> bytes:
        update = {name: getattr(self, name)[told:] for name, told in self._told.items()}
        self._mark_told()
        return msgspec.msgpack.encode(update)

    def set_update(self, update: bytes) -> None:
        for name, more in msgspec.msgpack.decode(update).items():
            getattr(self, name).extend(tuple(each) if isinstance(each, list) else each for each in more)
        self._mark_told()

    def _mark_told(self) -> None:
        self._told = {name: len(getattr(self, name)) for name in self._lists()}


class OneLedger(CodedLedger):
    label, version = "1", "1"


class TwoLedger(CodedLedger):
    label, version = "2", "2"


class OtherTwoLedger(CodedLedger):
    label, version = "2b", "2"


class ThreeLedger(CodedLedger):
    label, version = "3", "3"
    holds = "labels"


class FourLedger(CodedLedger):
    label, version = "4", "4"

    def set_state(self, state: bytes, version: str) -> None:
        if version != self.version:
            raise InvalidState(CANNOT)
        super().set_state(state, version)


CANNOT: Final = "no other version's state is taken"
CLASSES: Final[dict[str, tuple[type[Coded], ...]]] = {
    "tokens": (One, Two, OtherTwo, Three, Four),
    "ledger": (OneLedger, TwoLedger, OtherTwoLedger, ThreeLedger, FourLedger),
}
"""The classes, by the name that a group's record gives."""
LABELS: Final = tuple(each.label for each in CLASSES["tokens"])
UNABLE: Final = Four.label
"""The version that cannot take over."""


def code_of(label: str) -> Code:
    """Return the code of that version, which is the same for every class."""
    (found,) = (each for each in CLASSES["tokens"] if each.label == label)
    return Code(found.version, label.ljust(8, "x"))


def class_of(name: str, label: str) -> type[Coded]:
    (found,) = (each for each in CLASSES[name] if each.label == label)
    return found


def label_of(code: Code) -> str:
    """The inverse of :func:`code_of`."""
    return code.digest.rstrip("x")


class Deploys:
    """The versions deployed in one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        rng = world.rng("versions")
        self.first = rng.choice(LABELS)
        """The version that every host begins with."""
        self.last = rng.choice([label for label in LABELS if label != UNABLE])
        """The version that all hosts have in the end."""
        self._labels: dict[HostId, str] = {}
        self._kept: dict[HostId, dict[str, None]] = {}
        self.are_all_kept = False
        """Whether every version's sources are on every host."""
        self.answered: dict[str, dict[str, str]] = {}
        """By the name of a group: which version appended each token, as its client was told."""

    def label(self, host: HostId) -> str:
        """Return the version that the host's next process has."""
        return self._labels.get(host, self.first)

    def deploy(self, host: HostId, label: str) -> None:
        self._labels[host] = label

    def ran(self, host: HostId, label: str) -> None:
        """Record that the version's sources are on that host from now on."""
        self._kept.setdefault(host, {})[label] = None

    def lose(self, host: HostId, label: str) -> None:
        """Record that the version's sources are no longer on that host."""
        self._kept.get(host, {}).pop(label, None)

    def is_kept(self, host: HostId, label: str) -> bool:
        return self.are_all_kept or label in self._kept.get(host, {})

    def acknowledged(self, group: str, token: str, label: str) -> None:
        """Record which version a client was told had done its call; this must never change."""
        known = self.answered.setdefault(group, {}).setdefault(token, label)
        if known != label:
            said = f"{group}: {token} was done by {known}, and then by {label}"
            self._world.violation("E7", said)
