"""The classes whose objects the scenario's groups are: users' code, as plain as users write it."""

from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.execution.context import context
from holdfast.execution.interface import interleaved, query
from holdfast.model.outcome import CallRefused, NestedOutcomeUnknown
from holdfast.sim.scenarios.groups.failing_objects import changes_otherwise, comes_out_otherwise, die, is_well

FITS: Final = 5
FIT_S: Final = 0.3
UNREADABLE: Final = "Fitful.mood.since"
"""Named by a fault that is meant."""
LISTS: Final = ("tokens", "notes", "rings", "ends", "posts", "heard")


class Tokens:
    """Lists of tokens: what was appended, what other groups noted here, which timers rang, and how the calls
    that it made ended."""

    tokens: list[str]
    notes: list[str]
    rings: list[str]
    ends: list[tuple[str, str, str]]
    """(the group called, the token, how the call ended)"""
    posts: list[tuple[str, str]]
    """(the group that it was sent to, the token)"""
    heard: list[tuple[str, str]]
    """(the group that sent it, the token)"""
    appended: int
    """How many tokens were, which nobody ever asks for."""

    def __init__(self) -> None:
        self.tokens = []
        self.notes = []
        self.rings = []
        self.ends = []
        self.posts = []
        self.heard = []
        self.appended = 0

    def append(self, token: str) -> tuple[str, int]:
        self.tokens.append(token)
        self.appended += 1 + changes_otherwise(self)
        if comes_out_otherwise(self):
            self.tokens.append(token)
        return token, len(self.tokens)

    def fail(self, token: str) -> None:
        """Appends, and raises: what it changed stays."""
        self.tokens.append(token)
        raise ValueError(f"{token}@{len(self.tokens)}")

    def later(self, token: str, delay_s: float) -> tuple[str, int]:
        """Appends now, and rings once when the time has come."""
        context.call_later(delay_s, self.ring, token)
        return self.append(token)

    def ring(self, token: str) -> None:
        self.rings.append(token)

    def post(self, token: str, to: list[str]) -> tuple[str, int]:
        """Appends, and sends it to other groups, whose answers it does not wait for."""
        for index, name in enumerate(to):
            context.send(name).hear(context.this_group, f"{token}>>{index}")
            self.posts.append((name, f"{token}>>{index}"))
        return self.append(token)

    def hear(self, sender: str, token: str) -> None:
        self.heard.append((sender, token))

    async def relay(
        self, token: str, to: list[str], timeout_s: float | None = None, through: str = ""
    ) -> tuple[str, int]:
        """Appends, and has other groups note it, one after the other; the last of them has it noted by
        *through* in its turn, if there is that."""
        _, place = self.append(token)
        for index, name in enumerate(to):
            is_through = bool(through) and index == len(to) - 1
            await self._have_noted(name, f"{token}>{index}", timeout_s, through if is_through else "")
        return token, place

    async def _have_noted(self, name: str, hop: str, timeout_s: float | None, through: str) -> None:
        other = context.group(name, timeout_s=timeout_s)
        try:
            noted = await (other.pass_on(hop, through) if through else other.note(hop))
            end = "noted" if noted == hop else f"got the reply to {noted}"
        except NestedOutcomeUnknown:
            end = "unknown"
        except CallRefused as refusal:
            end = refusal.reason
        self.ends.append((name, hop, end))

    async def pass_on(self, token: str, to: str) -> str:
        """Notes it, and has another group note it."""
        self.note(token)
        await self._have_noted(to, f"{token}>", None, "")
        return token

    def die(self, token: str) -> tuple[str, int]:
        """Appends, and ends the process, whichever it is."""
        self.append(token)
        die(token)

    def note(self, token: str) -> str:
        self.notes.append(token)
        return token

    @query
    def read(self) -> list[str]:
        return self.tokens

    def is_alive(self) -> bool:
        return is_well(self)


class Ledger(Tokens):
    """The same, and tells what changed since it was last asked."""

    def __init__(self) -> None:
        super().__init__()
        self._told = dict.fromkeys(LISTS, 0)

    def get_state(self) -> bytes:
        self._told = dict.fromkeys(LISTS, 0)
        return self.get_update()

    def set_state(self, state: bytes) -> None:
        Tokens.__init__(self)
        self.set_update(state)

    def get_update(self) -> bytes:
        update = {name: getattr(self, name)[told:] for name, told in self._told.items()}
        self._mark_told()
        return msgspec.msgpack.encode(update)

    def set_update(self, update: bytes) -> None:
        for name, more in msgspec.msgpack.decode(update).items():
            getattr(self, name).extend(tuple(each) if isinstance(each, list) else each for each in more)
        self._mark_told()

    def _mark_told(self) -> None:
        self._told = {name: len(getattr(self, name)) for name in LISTS}


@interleaved
class Woven(Tokens):
    """The same, and others append while one waits for another group."""


@dataclass
class Mood:
    since: int | None = None


class Fitful(Tokens):
    """The same, and now and then its state is one that can be written and not be read back (E9)."""

    mood: Mood

    def __init__(self) -> None:
        super().__init__()
        self.mood = Mood()

    def append(self, token: str) -> tuple[str, int]:
        appended = super().append(token)
        if len(self.tokens) % FITS == 0:
            self.mood.since = 0.5  # type: ignore[assignment]  # the mistake
            context.call_later(FIT_S, self.calm)
        return appended

    def calm(self) -> None:
        self.mood.since = len(self.tokens)


class Echo:
    """Without state: what it answers depends on the call alone."""

    def echo(self, token: str) -> str:
        return token

    def note(self, token: str) -> str:
        return token

    def pass_on(self, token: str, to: str) -> str:
        return token


CLASSES: Final[dict[str, type]] = {
    "tokens": Tokens,
    "ledger": Ledger,
    "woven": Woven,
    "fitful": Fitful,
    "echo": Echo,
}
"""By the name that a group's record gives."""
