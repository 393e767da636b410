"""Queries that ran and may not be answered yet (S4, R1, R2)."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.model.ids import Position
from holdfast.styles.ports import Sequence, StylePorts, Token


@dataclass(frozen=True, slots=True)
class _Ran:
    saw: Position
    token: Token
    number: int
    outcome: bytes


class Queries:
    """The answers one primary holds back."""

    def __init__(self, ports: StylePorts) -> None:
        self._ports = ports
        self._ran: list[_Ran] = []

    def __len__(self) -> int:
        return len(self._ran)

    def add(self, saw: Position, token: Token, number: int, outcome: bytes) -> None:
        """A query ran on the state as of *saw*."""
        self._ran.append(_Ran(saw, token, number, outcome))

    def release(self, sequence: Sequence) -> None:
        """Answer what saw nothing uncommitted, if this member may read; else have the authority asked. It is
        asked after the queries ran, and so it confirms that they saw the newest there was."""
        ripe = [each for each in self._ran if each.saw <= sequence.committed]
        if not ripe:
            return
        self._ran = [each for each in self._ran if each.saw > sequence.committed]
        if sequence.may_read():
            self._tell(ripe)
        else:
            sequence.confirm_read(self._when_confirmed(ripe))

    def take_tokens(self) -> list[Token]:
        """Everybody who still waits; nobody does any more."""
        tokens = [each.token for each in self._ran]
        self._ran.clear()
        return list(dict.fromkeys(tokens))

    def _when_confirmed(self, ripe: list[_Ran]) -> Callable[[bool], None]:
        def then(is_confirmed: bool) -> None:
            if is_confirmed:
                self._tell(ripe)
            else:
                for token in dict.fromkeys(each.token for each in ripe):
                    self._ports.forsake(token)

        return then

    def _tell(self, ripe: list[_Ran]) -> None:
        by_token: dict[Token, list[_Ran]] = {}
        for each in ripe:
            by_token.setdefault(each.token, []).append(each)
        for token, ran in by_token.items():
            self._ports.answer(token, [each.number for each in ran], [each.outcome for each in ran])
