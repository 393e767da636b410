"""The book of a run: what hosts took for committed, who coordinated, what clients were told (IM C, T2)."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.control_records import Member, Participant, Status, Transaction
from holdfast.control.coordination.members import ENOUGH_HOSTS, PARTICIPANTS_MIN
from holdfast.control.coordination.ports import ParticipantRole
from holdfast.control.coordination.state_file import Context
from holdfast.model.ids import Term
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.authority.observer import Truth

ELECTIONS_MAX: Final = 10
"""The most elections within the time after which silence is noticed; hosts that depose each other unheard
cause more."""


@dataclass(slots=True)
class Book:
    """The observer of one run."""

    world: World
    truth: Truth
    silence_ns: int
    """The hosts' time limit for silence (:class:`holdfast.control.coordination.config.ControlConfig`)."""
    is_ending: bool = False
    """Whether clients make no new requests."""
    progress: int = 0
    """The number of changes accepted since the healing."""
    told: Counter[str] = field(default_factory=Counter)
    final_tokens: list[str] = field(default_factory=list)
    """The content of the context at the end."""
    roles: dict[str, list[ParticipantRole]] = field(default_factory=dict)
    """The roles of each process, in order."""
    _bodies: dict[int, tuple[bytes, str]] = field(default_factory=dict)
    _coordinators: dict[Term, str] = field(default_factory=dict)
    _accepted: dict[str, int] = field(default_factory=dict)
    _failed: dict[str, str] = field(default_factory=dict)
    _unsettled: dict[str, int] = field(default_factory=dict)
    _arrived: set[str] = field(default_factory=set)
    _logged: set[tuple[str, int]] = field(default_factory=set)
    """Each host and update whose log is durable on that host."""
    _dropped: dict[int, str] = field(default_factory=dict)
    _elections: list[int] = field(default_factory=list)
    """When the latest terms began."""

    def __post_init__(self) -> None:
        self.truth.watchers.append(self._on_revision)

    def arrives(self, token: str) -> bool:
        """Whether *token* arrives for the first time.

        Copies made by the network are ignored: clients use connections, which deliver once.
        """
        is_first = token not in self._arrived
        self._arrived.add(token)
        return is_first

    # --- what hosts report

    def holds(self, context: Context, process: str) -> None:
        """Check a context that *process* takes for committed (IM-18).

        The record and every other process must agree.
        """
        known, by = self._bodies.setdefault(context.cas, (context.body, process))
        if known != context.body:
            self._violation("one-context", f"{by} and {process} hold different contexts of {context.cas}")
        if context.cas and self.truth.rules.decision(context.cas) is not Status.COMMIT:
            said = f"{process} holds {context.cas}, which is {self.truth.rules.decision(context.cas)}"
            self._violation("IM-18", said)
        self._check_logged(context.cas)

    def logged(self, host: str, cas: int) -> None:
        """Record that the log of *cas* is durable on *host*."""
        self._logged.add((host, cas))

    def dropped(self, cas: int, process: str) -> None:
        """Record that *process* discards a log: the update must never be committed (IM-33, N-3)."""
        self._dropped.setdefault(cas, process)

    def takes_role(self, role: ParticipantRole, term: Term, process: str) -> None:
        """Check a new role (IM-62, IM-63).

        There is one coordinator per term, and a process changes roles only through bootstrap.
        """
        former = self.roles.setdefault(process, [])
        if (not former and role is not ParticipantRole.BOOTSTRAP) or (
            former and ParticipantRole.BOOTSTRAP not in (former[-1], role)
        ):
            self._violation("IM-63", f"{process} becomes {role.value} after {former[-1:]}")
        former.append(role)
        if role is ParticipantRole.COORDINATOR:
            holder = self._coordinators.setdefault(term, process)
            if holder != process:
                self._violation("one-coordinator", f"term {term}: {holder} and {process}")
            self.world.sometimes("a coordinator was elected")

    # --- what the authority keeps

    def _on_revision(self, events: Events) -> bool:
        for change in events.changes:
            if change.key == keys.LAST_TRANSACTION and change.item is not None:
                transaction = msgspec.json.decode(change.item.value, type=Transaction)
                if transaction.status is Status.INITIAL:
                    self._opened(transaction)
            elif change.key == keys.TERM:
                self._elected()
        return True

    def _elected(self) -> None:
        """Require that elections follow silence, a death or a restart (IM-106).

        They must not just follow the previous election.
        """
        now = self.world.now
        self._elections = [at for at in self._elections if now - at < self.silence_ns] + [now]
        if len(self._elections) > ELECTIONS_MAX:
            self._violation("IM-106", f"{len(self._elections)} elections since {self._elections[0]}")

    def _opened(self, transaction: Transaction) -> None:
        """Require that every participant has the committed context, and none is alone with it (T3, T4)."""
        members = [
            msgspec.json.decode(item.value, type=Member)
            for key, item in self.truth.items.items()
            if key.startswith(keys.MEMBERS)
        ]
        item = self.truth.items.get(keys.COMMITTED)
        committed = None if item is None else msgspec.json.decode(item.value, type=Transaction)
        holders = [
            Participant(host=each.host, incarnation=each.incarnation)
            for each in members
            if each.context_cas == (0 if committed is None else committed.cas)
        ] + ([] if committed is None else list(committed.participants))
        for each in transaction.participants:
            if each not in holders:
                self._violation("T3", f"{each} takes part in {transaction.cas} without the context before it")
        if len(members) >= ENOUGH_HOSTS and len(transaction.participants) < PARTICIPANTS_MIN:
            self._violation("T4", f"{transaction} was opened alone, of {len(members)} hosts")

    # --- what clients report

    def was_told(self, token: str, what: str, cas: int, why: str) -> None:
        self.world.operation()
        self.told[what] += 1
        if what == "accepted":
            self._accepted[token] = cas
            self.progress += self.world.is_healed
        elif what == "failed":
            self._failed[token] = why
        else:
            self._unsettled[token] = cas
            self.world.sometimes("an outcome was left to the record")

    def _check_logged(self, cas: int) -> None:
        """Require that a committed update has a durable log at every participant (IM-23, IM-27)."""
        item = self.truth.items.get(keys.transaction(cas))
        if item is None:
            return
        for each in msgspec.json.decode(item.value, type=Transaction).participants:
            if (each.host, cas) not in self._logged:
                self._violation("IM-27", f"{cas} was committed, and {each.host} never had its log")

    # --- at the end

    def check(self, final: Context) -> None:
        """Require no false positive, and no hidden false negative (IM-13, IM-14)."""
        for cas, process in self._dropped.items():
            if self.truth.rules.decision(cas) is Status.COMMIT:
                self._violation("N-3", f"{process} dropped the log of {cas}, which is committed")
        self.final_tokens = tokens_of(final.body)
        tokens = Counter(self.final_tokens)
        for token, number in tokens.items():
            if number > 1:
                self._violation("exactly-once", f"{token} is {number} times in the context")
        for token, cas in self._accepted.items():
            if token not in tokens:
                self._violation("IM-13", f"{token} was accepted in {cas} and is not in {final.cas}")
        for token, why in self._failed.items():
            if token in tokens:
                self._violation("IM-14", f"{token} was said to have failed ({why}) and is there")
        for token, cas in self._unsettled.items():
            is_committed = self.truth.rules.decision(cas) is Status.COMMIT
            if is_committed != (token in tokens):
                said = f"{token} was left to the record of {cas}, committed: {is_committed}"
                self._violation("IM-14", f"{said}; in the context: {token in tokens}")

    def _violation(self, rule: str, message: str) -> None:
        self.world.violation(rule, message)


def tokens_of(body: bytes) -> list[str]:
    return msgspec.msgpack.decode(body, type=list[str]) if body else []
