"""The classes whose objects the scenario's groups are: users' code, as plain as users write it."""

from typing import Final

import msgspec

from holdfast.styles.context import context
from holdfast.styles.interface import query


class Tokens:
    """Lists of tokens: what was appended, what other groups noted here, which timers rang."""

    tokens: list[str]
    notes: list[str]
    rings: list[str]

    def __init__(self) -> None:
        self.tokens = []
        self.notes = []
        self.rings = []

    def append(self, token: str) -> tuple[str, int]:
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

    async def relay(self, token: str, to: list[str]) -> tuple[str, int]:
        """Appends, and has the token noted by other groups, one after the other."""
        place = self.append(token)
        for index, name in enumerate(to):
            await context.group(name).note(f"{token}>{index}")
        return place

    def note(self, token: str) -> str:
        self.notes.append(token)
        return token

    @query
    def read(self) -> list[str]:
        return self.tokens


class Ledger(Tokens):
    """The same, and tells what changed since it was last asked."""

    def __init__(self) -> None:
        super().__init__()
        self._told = (0, 0, 0)

    def get_state(self) -> bytes:
        self._told = self._lengths()
        return msgspec.msgpack.encode((self.tokens, self.notes, self.rings))

    def set_state(self, state: bytes) -> None:
        self.tokens, self.notes, self.rings = msgspec.msgpack.decode(state)
        self._told = self._lengths()

    def get_update(self) -> bytes:
        lists = (self.tokens, self.notes, self.rings)
        update = [each[told:] for each, told in zip(lists, self._told, strict=True)]
        self._told = self._lengths()
        return msgspec.msgpack.encode(update)

    def set_update(self, update: bytes) -> None:
        for own, more in zip(
            (self.tokens, self.notes, self.rings), msgspec.msgpack.decode(update), strict=True
        ):
            own.extend(more)
        self._told = self._lengths()

    def _lengths(self) -> tuple[int, int, int]:
        return len(self.tokens), len(self.notes), len(self.rings)


class Echo:
    """Without state: what it answers depends on the call alone."""

    def echo(self, token: str) -> str:
        return token


CLASSES: Final[dict[str, type]] = {"tokens": Tokens, "ledger": Ledger, "echo": Echo}
"""By the name that a group's record gives."""
