"""The classes of the scenario's groups: users' code, as simple as users write it."""

from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.execution.context import context
from holdfast.execution.interface import interleaved, query, slow
from holdfast.execution.stored import Stored, database_of
from holdfast.model.outcome import CallRefused, NestedOutcomeUnknown
from holdfast.sim.scenarios.groups.failing_objects import (
    changes_state_silently,
    die,
    gives_other_replies,
    is_well,
)

FITS: Final = 5
FIT_S: Final = 0.3
UNREADABLE: Final = "Fitful.mood.since"
"""The unreadable part of a :class:`Fitful` state, as a report names it; such reports are expected."""
LISTS: Final = ("tokens", "notes", "rings", "ends", "posts", "heard", "pieces")


class Tokens:
    """Lists of tokens.

    They are what was appended, what other groups noted here, which timers rang, and how calls to other groups
    ended.
    """

    tokens: list[str]
    notes: list[str]
    rings: list[str]
    ends: list[tuple[str, str, str]]
    """(the called group, the token, how the call ended)"""
    posts: list[tuple[str, str]]
    """(the group that the token was sent to, the token)"""
    heard: list[tuple[str, str]]
    """(the group that sent the token, the token)"""
    pieces: list[str]
    """What the annex of the group had it receive."""
    appended: int
    """The number of tokens appended, which no method returns."""

    def __init__(self) -> None:
        self.tokens = []
        self.notes = []
        self.rings = []
        self.ends = []
        self.posts = []
        self.heard = []
        self.pieces = []
        self.appended = 0

    def append(self, token: str) -> tuple[str, int]:
        self.tokens.append(token)
        self.appended += 1 + changes_state_silently(self)
        if gives_other_replies(self):
            self.tokens.append(token)
        return token, len(self.tokens)

    @slow
    def grind(self, token: str) -> tuple[str, int]:
        """Append, but not at once (E15)."""
        return self.append(token)

    def fail(self, token: str) -> None:
        """Append, then raise: the change remains."""
        self.tokens.append(token)
        raise ValueError(f"{token}@{len(self.tokens)}")

    def later(self, token: str, delay_s: float) -> tuple[str, int]:
        """Append now, and ring once after *delay_s*."""
        context.call_later(delay_s, self.ring, token)
        return self.append(token)

    def ring(self, token: str) -> None:
        self.rings.append(token)

    def post(self, token: str, to: list[str]) -> tuple[str, int]:
        """Append, and send the token to other groups without waiting for their answers."""
        for index, name in enumerate(to):
            context.send(name).hear(context.this_group, f"{token}>>{index}")
            self.posts.append((name, f"{token}>>{index}"))
        return self.append(token)

    def hear(self, sender: str, token: str) -> None:
        self.heard.append((sender, token))

    def receive(self, piece: str) -> None:
        """Note a piece of a parcel (:mod:`.parcels`); clients do not call this."""
        self.pieces.append(piece)

    async def relay(
        self, token: str, to: list[str], timeout_s: float | None = None, through: str = ""
    ) -> tuple[str, int]:
        """Append, and let other groups note the token, one after the other.

        The last of them has it noted by *through* in turn, if given.
        """
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
        """Note the token, and let another group note it."""
        self.note(token)
        await self._have_noted(to, f"{token}>", None, "")
        return token

    def die(self, token: str) -> tuple[str, int]:
        """Append, and end the process that executes this."""
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
    """Like :class:`Tokens`, and tells what has changed since the last question."""

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
    """Like :class:`Tokens`, but other operations run while one waits for another group."""


@dataclass
class Mood:
    since: int | None = None


class Fitful(Tokens):
    """Like :class:`Tokens`, but at times its state can be written and not be read back (E9)."""

    mood: Mood

    def __init__(self) -> None:
        super().__init__()
        self.mood = Mood()

    def append(self, token: str) -> tuple[str, int]:
        appended = super().append(token)
        if len(self.tokens) % FITS == 0:
            self.mood.since = 0.5  # type: ignore[assignment]  # the deliberate mistake
            context.call_later(FIT_S, self.calm)
        return appended

    def calm(self) -> None:
        self.mood.since = len(self.tokens)


class Filed(Stored, Tokens):
    """Like :class:`Tokens`, but the tokens are in a database (W7)."""

    schema = """
        CREATE TABLE tokens (place INTEGER PRIMARY KEY, token TEXT NOT NULL);
        CREATE TABLE strays (token TEXT);
    """

    @property
    def tokens(self) -> list[str]:
        database = database_of(self)
        rows = (
            database.execute("SELECT token FROM tokens ORDER BY place", (), is_query=True) if database else []
        )
        return [token for (token,) in rows]

    @tokens.setter
    def tokens(self, tokens: list[str]) -> None:
        return  # a new object has none

    def append(self, token: str) -> tuple[str, int]:
        self.appended += 1
        if changes_state_silently(self):
            self.database.execute("INSERT INTO strays VALUES (?)", token)
        return token, self._put(token)

    def grind(self, token: str) -> tuple[str, int]:
        return self.append(token)

    def fail(self, token: str) -> None:
        raise ValueError(f"{token}@{self._put(token)}")

    def _put(self, token: str) -> int:
        row = self.database.one("INSERT INTO tokens (token) VALUES (?) RETURNING place", token)
        assert row is not None
        return int(row[0])


class Echo:
    """A class without state: its answers depend on the call alone."""

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
    "filed": Filed,
    "echo": Echo,
}
"""The classes, by the name that a group's record gives."""
