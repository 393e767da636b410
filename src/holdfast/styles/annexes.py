"""The annexes of one member: what they are told, what they order, and when they have their turn (W9, W10).

An annex is bound to its member once and outlives the objects that the member has one after the other; the
annex's part of the state belongs to each object (:mod:`holdfast.execution.annex`).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from holdfast.execution.annex import Annex, AnnexPorts, AnnexState
from holdfast.execution.execution import Execution
from holdfast.execution.records import ANNEX_POSITIONS_MAX, encode_arguments
from holdfast.model.calls import Request
from holdfast.model.errors import InvalidRequest, Rejected, Unavailable
from holdfast.model.ids import ClientId, HostId, Position
from holdfast.model.outcome import Outcome, decode_outcome
from holdfast.sequence.config import RECORD_BYTES_MAX
from holdfast.sequence.messages import PeerMessage
from holdfast.styles.ports import Sequence, StylePorts

BODY_BYTES_MAX: Final = RECORD_BYTES_MAX - 4096
"""The most bytes in a record of an annex: what fits into a record, beside its stamp and the annex's name."""
ASKED_BY: Final = ClientId("annex/query")

Order = Callable[[str, int, bytes], Position]


class MemberAnnexes:
    """The annexes of one member. *execution* returns its object, if it has one; *order* orders a record for
    an annex, with its positions; *renew* has the object replaced."""

    def __init__(
        self,
        annexes: Iterable[Annex],
        ports: StylePorts,
        *,
        sequence: Callable[[], Sequence],
        execution: Callable[[], Execution | None],
        leads: Callable[[], bool],
        term: Callable[[], int],
        order: Order,
        renew: Callable[[str], None],
    ) -> None:
        self._ports = ports
        self._sequence = sequence
        self._execution = execution
        self._leads = leads
        self._term = term
        self._order = order
        self._renew = renew
        self._why_renew = ""
        """Why the object is to be replaced, at the end of this turn; empty if it is not."""
        self._by_name = {each.name: each for each in annexes}
        self.are_there = bool(self._by_name)
        """Whether there is any: an attribute, because every turn of every group looks at it."""
        for name, each in self._by_name.items():
            each.bind(self._ports_of(name, each))

    def get(self, name: str) -> Annex | None:
        return self._by_name.get(name)

    def on_message(self, peer: HostId, message: PeerMessage) -> None:
        """Pass on what a member told its annex; what is for an annex that is not here is dropped."""
        annex = self._by_name.get(message.part)
        if annex is not None:
            annex.on_message(peer, message)

    def turn(self) -> None:
        for annex in self._by_name.values():
            with suppress(Rejected, Unavailable):  # what could not be ordered now is still due next time
                annex.turn()
        why, self._why_renew = self._why_renew, ""
        if why:
            self._renew(why)

    def next_ns(self) -> int | None:
        """When, by the clock, the next turn is due."""
        due = [at for each in self._by_name.values() if (at := each.next_ns()) is not None]
        return min(due) if due else None

    # --- what annexes ask for

    def _ports_of(self, name: str, annex: Annex) -> AnnexPorts:
        ports = self._ports
        return AnnexPorts(
            clock=ports.clock,
            trace=ports.trace,
            me=lambda: self._sequence().peer_messages.me,
            epoch=lambda: self._sequence().peer_messages.epoch,
            leads=self._leads,
            term=self._term,
            state=partial(self._state, name),
            peers=lambda: self._sequence().peer_messages.peers(),
            tell=lambda host, body: self._sequence().peer_messages.tell(host, name, body),
            order=partial(self._order_for, annex),
            ready=ports.again,
            wake=ports.wake,
            query=self._query,
            renew=self._ask_renewal,
            hand_over=lambda to, why: self._sequence().hand_over(to, why),
            fault=ports.fault,
        )

    def _state(self, name: str) -> AnnexState | None:
        execution = self._execution()
        return execution.annexes.get(name) if execution is not None else None

    def _order_for(self, annex: Annex, body: bytes) -> Position:
        positions = annex.positions(body)
        if len(body) > BODY_BYTES_MAX or not 1 <= positions <= ANNEX_POSITIONS_MAX:
            raise InvalidRequest(
                f"a record of {annex.name} has at most {BODY_BYTES_MAX} bytes and takes 1 to "
                f"{ANNEX_POSITIONS_MAX} positions, not {len(body)} bytes and {positions} positions"
            )
        last = self._order(annex.name, positions, body)
        self._ports.again()  # it is sent at the end of a turn
        return last

    def _query(self, method: str, arguments: tuple[object, ...]) -> Outcome | None:
        execution = self._execution()
        if execution is None or execution.sees(method) != execution.position:
            return None
        asked = Request(ASKED_BY, execution.position)
        return decode_outcome(execution.query(method, encode_arguments(arguments, {}), asked))

    def _ask_renewal(self, why: str) -> None:
        self._why_renew = why
        self._ports.wake()
