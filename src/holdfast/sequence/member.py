"""One member of a group: its role, and which component handles which event.

The components decide; this module knows which of them is in charge when. A new process never resumes a role
(V3): it reads the view, then follows, learns, or claims, and becomes primary only by winning an epoch.
"""

from collections.abc import Callable
from functools import partial

from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewChange
from holdfast.model.errors import Unavailable, invariant
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Position
from holdfast.sequence import messages
from holdfast.sequence.acceptance import Acceptance
from holdfast.sequence.catchup import Learning
from holdfast.sequence.claim import Claim
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.early_messages import EarlyMessages
from holdfast.sequence.handover import Phase
from holdfast.sequence.member_state import MemberState, MemberTimer, MemberTimers
from holdfast.sequence.peer_messages import PeerMessages
from holdfast.sequence.ports import Application, HostPorts, Me
from holdfast.sequence.primary import Primary, ReadRights
from holdfast.sequence.recovery import StateLoss, compared, held, is_of_another_generation
from holdfast.sequence.role import TRANSITIONS, Rank, Role
from holdfast.sequence.state_request import JoinRequest, StateRequest
from holdfast.sequence.store import GroupStore
from holdfast.sequence.view_requests import ViewRequests
from holdfast.sequence.view_state import ViewState
from holdfast.storage.record import Record


class Member:
    """One member of one group. The host feeds it messages, views and proofs of death."""

    def __init__(
        self,
        group: GroupId,
        me: Me,
        *,
        ports: HostPorts,
        config: SequenceConfig,
        application: Application,
        committed: Position,
        is_doubtful: bool = False,
    ) -> None:
        """*committed*: the position of the checkpoint that *application* was loaded from."""
        store = GroupStore(group, ports.log, ports.durability)
        self.role = Role.WAITING
        self._newer_view: Seen[View] | None = None
        """The newest view that arrived while a view change of this member was unanswered."""
        self._on = on = MemberState(
            group, me, config, ports, application, store, ViewState(me), committed, is_doubtful=is_doubtful
        )
        self.standing = on.standing
        self._alarms = MemberTimers(ports.timers, self._on_alarm)
        self._view_requests = ViewRequests(
            on,
            self._alarms,
            on_read=self._on_read,
            on_won=self._won,
            on_lost=self._lost,
            on_unmet=self._unmet,
            on_fatal=self._give_up,
            on_never_issued=self._disbelieve,
        )
        self._lead = lead = Primary(on, self._alarms, self._view_requests, on_overdue=self._reclaim)
        self._submission, self._handover = lead.submission, lead.handover
        self.flush = lead.flush
        """Sends and syncs what was submitted in this turn (S5)."""
        self.lacks_space = lead.submission.without_space
        self._acceptance = Acceptance(on)
        self._learning = Learning(on, self._acceptance.ask)
        self._claim = Claim(on, self._begin_claiming, partial(self._alarms.set, MemberTimer.CLAIM))
        self._loss = StateLoss(on)
        self._early = EarlyMessages(on, self._submission)
        self._join_request = JoinRequest(on, self._alarms, self._acceptance, self._loss, lambda: self.role)
        self._state_request = StateRequest(on, self._alarms, self._acceptance, lambda: self.role)
        self._acceptance.on_first_heard = self._on_first_heard
        self.peer_messages = PeerMessages(on, lambda: self.role)
        self._reads = ReadRights(on, self._submission, self._handover, self.on_view)

    # --- for the application and the host

    @property
    def epoch(self) -> Epoch:
        return self._on.epoch

    @property
    def committed(self) -> Position:
        return self._on.committed

    @property
    def tail(self) -> Position:
        return self._on.store.tail.position

    @property
    def log_bytes(self) -> int:
        """As :attr:`own_log_bytes`; at a primary, of the required member with the longest log (D4)."""
        others = self._submission.longest_log() if self.role is Role.PRIMARY else 0
        return max(self._on.store.live_bytes(), others)

    @property
    def own_log_bytes(self) -> int:
        """The bytes of records on this host that no checkpoint covers yet."""
        return self._on.store.live_bytes()

    @property
    def is_serving(self) -> bool:
        """Whether this member takes calls."""
        return self._submission.is_serving and self._handover.phase is Phase.NONE  # as `Primary.is_serving`

    @property
    def primary(self) -> HostId | None:
        """The host of the primary, as far as this member knows."""
        return self._on.me.host if self.role is Role.PRIMARY else self._acceptance.primary

    @property
    def is_lost(self) -> bool:
        """Whether the group's state is gone with every process that held it (V4)."""
        return self._loss.is_total

    @property
    def is_doubtful(self) -> bool:
        return self._on.is_doubtful

    def held(self, number: int) -> messages.Held:
        """What this member holds, for a person who considers a forced recovery."""
        return held(self._on, number, self.role, is_serving=self.is_serving)

    def start(self, seen: Seen[View] | None = None) -> None:
        """Find out this member's place (V3). *seen* counts unless the log has followed a later epoch."""
        if seen is not None and seen.value.epoch >= self._on.store.followed():
            self._on_read(seen)
        else:
            self._view_requests.read()

    def submit(self, body: bytes, count: int = 1) -> Position:
        """Order *count* operations as one record; returns the last position. :meth:`flush` follows once per
        turn. Raises ``Unavailable``, ``Overloaded`` or ``InvalidRequest``; then nothing has changed."""
        if self._submission.is_serving and self._handover.phase is Phase.NONE:
            return self._submission.order(body, count)
        why = "its state is lost" if self.is_lost else "not served here"
        raise Unavailable(f"group {self._on.group}: {why}")

    def read(self, first: Position, last: Position) -> list[Record]:
        """The records that hold these positions, as they are in the log."""
        return self._on.store.read(first, last)

    def may_read(self) -> bool:
        """Whether this member may answer a query from its own state now (R1)."""
        return self._reads.may_read()

    def confirm_read(self, then: Callable[[bool], None]) -> None:
        """Ask the authority whether a query that ran before may be answered (R2); *then* gets the answer."""
        self._reads.confirm(then)

    def hand_over(self, to: HostId, why: str = "") -> None:
        """Hand the group over to the in-sync backup on *to* (K5); *why* goes into the group's history."""
        self._lead.hand_over(to, why)

    def successors(self, log_below: int | None = None, *, has_space: bool = False) -> list[HostId]:
        """The hosts to hand over to, the fittest first (O3, E8, D4, D5)."""
        return self._lead.successors(log_below, has_space=has_space)

    def rank_of(self, host: HostId) -> Rank:
        """How fit the listed member on *host* is to lead, as far as this primary knows."""
        return self._submission.rank_on(host)

    def on_fitness(self) -> None:
        """Handle that the object is gone or is back: tell the primary (O3, E8)."""
        if self.role not in (Role.WAITING, Role.HALTED):
            self._state_request.look()
            self._maybe_claim()

    def halt(self, why: str) -> None:
        """Stop for good."""
        self._give_up(why)

    def on_view(self, seen: Seen[View]) -> None:
        """Take in a view that is or was in force: read, watched, or found when a change was refused."""
        on = self._on
        if self.role is Role.HALTED or seen.value.epoch <= on.standing.epoch:
            return
        if on.standing.pending is not None:
            # The answer to our own change will come, and may be older than this.
            self._newer_view = max(self._newer_view or seen, seen, key=lambda each: each.value.epoch)
            return
        self._learn(seen)

    def tune(self, config: SequenceConfig) -> None:
        self._on.config = config

    def on_record(self, seen: Seen[GroupRecord]) -> None:
        """Take in the group's record, which says where the group should have members (M5, M6)."""
        was_barred = self._on.standing.is_barred
        if self._on.standing.learn_record(seen):
            self._lead.on_record()
            if was_barred:
                self._maybe_claim()  # perhaps it may lead now, and nobody else does (W3)

    def leave(self) -> None:
        """End all work, because the host no longer has a member of this group (M6)."""
        self._halt("it has left the group")

    def on_death(self) -> None:
        """Handle that a process was proven dead (K2): claim the group, or drop the backup."""
        (self._lead.make_due_changes if self._submission.is_primary else self._maybe_claim)()

    def on_stopping(self, host: HostId, incarnation: Incarnation, *, is_leaving: bool) -> None:
        """Handle that a process, possibly this one, is about to end in order (K5)."""
        self._lead.on_stopping(host, incarnation, is_leaving=is_leaving)

    def on_silence(self, host: HostId) -> None:
        """Handle that a promise to *host* has run out. Who follows a later view is about to be told of it."""
        is_current = self._on.standing.epoch == self._on.epoch
        if self._acceptance.primary == host or (self.role is Role.BACKUP and is_current):
            self._maybe_claim()

    def is_backup_in(self, epoch: Epoch, asked_by: HostId) -> bool:
        """Whether this member is a backup in *epoch*; answers a ``Confirm`` of the primary's host (R1)."""
        on, is_backup = self._on, self.role is Role.BACKUP
        if is_in := is_backup and on.epoch == epoch and self._acceptance.primary == asked_by:
            on.confirm(asked_by, on.ports.leases.latest_beat(asked_by)[0], epoch)
        return is_in

    def on_confirmed(self, host: HostId, incarnation: Incarnation, epoch: Epoch, beat: int) -> None:
        self._submission.on_confirmed(host, incarnation, epoch, beat)

    def on_message(self, peer: HostId, message: messages.GroupMessage) -> None:
        if isinstance(message, messages.BESIDE):
            if isinstance(message, messages.PeerMessage):
                self.peer_messages.on_message(peer, message)
            else:
                self._on.send(peer, self.held(message.number))
            return
        if self.role in (Role.WAITING, Role.HALTED):
            return  # a member acknowledges nothing before it has read the view (V3)
        if isinstance(message, messages.IfWon):
            self._early.on_if_won(peer, message)
            self._take_ahead()
            return
        on = self._on
        if on.confirmed_to is not None and message.epoch > on.confirmed_in:
            on.heard_of(peer, message.epoch)
        if message.epoch < on.epoch and not isinstance(message, messages.Accepted | messages.Hello):
            if isinstance(message, messages.Submit | messages.Offer | messages.Compare):
                on.send(peer, messages.Refused(on.group, on.epoch))
                self._check_epoch()
            return
        if self.role is Role.PRIMARY:
            self._lead.on_message(peer, message)
            if message.epoch > on.epoch:  # find out who won it
                if isinstance(message, messages.Compare):
                    # Its confirmation keeps it from claiming: end our reads, and say so.
                    on.overtaken_in = max(on.overtaken_in, message.epoch)
                    on.send(peer, messages.Refused(on.group, message.epoch))
                self._view_requests.read()
        elif isinstance(message, messages.Submit) and self.role is not Role.CLAIMING:
            acceptance = self._acceptance
            if message.epoch == on.epoch and acceptance.primary != peer and acceptance.primary is not None:
                on.note("two_primaries", of=message.epoch, known=acceptance.primary, other=peer)
                return
            acceptance.on_submit(peer, message)
        else:
            if self.role is Role.CLAIMING:
                self._early.keep(peer, message)
            self._on_message_as_follower(peer, message)

    def _on_message_as_follower(self, peer: HostId, message: messages.GroupMessage) -> None:
        match message:
            case messages.Offer():
                if self.role is Role.LEARNER or self._on.standing.own_entry is not None:
                    self._acceptance.follow(message.epoch, peer)
                    self._learning.on_offer(peer, message)
            case messages.Chunk():
                self._learning.on_chunk(message)
            case messages.Compare():
                self._on.send(peer, compared(self._on))
            case messages.Compared():
                if self.role is Role.BACKUP:
                    self._claim.on_compared(peer, message)
            case messages.Released(epoch=epoch, why=why):
                if epoch == self._on.epoch and peer == self._acceptance.primary:
                    if self._state_request.is_unfit:
                        self._state_request.tell()  # so that the primary does not wait for this member (E8)
                        return
                    self._claim.release(epoch, why)
                    self._maybe_claim()
            case messages.Waived(epoch=epoch, is_behind=is_behind) if epoch == self._on.epoch:
                self._claim.claim_order.on_waived(peer, is_behind=is_behind)
                self._maybe_claim()
            case messages.Refused():
                self._view_requests.read()

    def _on_alarm(self, alarm: MemberTimer) -> None:
        match alarm:
            case _ if self.role is Role.HALTED:
                return
            case MemberTimer.SWEEP | MemberTimer.NOTIFY if self.role is Role.PRIMARY:
                self._lead.sweep()
            case MemberTimer.CLAIM if self.role is Role.BACKUP:
                self._on_time_to_claim()
            case MemberTimer.ASK:
                self._join_request.while_unfed()
            case MemberTimer.READ:
                self._view_requests.read()
            case MemberTimer.CHANGE:
                self._view_requests.change_again()
            case MemberTimer.LACK:
                self._state_request.look()

    def _on_time_to_claim(self) -> None:
        if self._claim.is_comparing:
            self._claim.decide()
        elif self._on.standing.epoch == self._on.epoch or not self._acceptance.is_fed_since(None):
            self._maybe_claim()
        # Otherwise another member has claimed and is followed; its view, death or silence will be reported.

    def _on_read(self, seen: Seen[View]) -> None:
        """Take in a view that was read from the authority and may be a moment old."""
        if seen.value.epoch > self._on.standing.epoch:
            self.on_view(seen)
        else:
            self._maybe_claim()

    def _disbelieve(self, heard: Epoch, view: View) -> None:
        """Forget an epoch that somebody spoke of and nobody ever won (K7)."""
        if self._acceptance.disbelieve(heard, view, self.role):
            self._learning.stop()
            self._join_request.soon()

    def _learn(self, seen: Seen[View]) -> None:
        """Take the place that *seen* gives this member, which is never that of the primary (V3)."""
        on = self._on
        if is_of_another_generation(on, seen.value):
            self._halt(f"epoch {seen.value.generation} was a forced recovery from another member")
            on.ports.on_superseded(on.group)
            return
        if self.role is Role.PRIMARY:
            self._lead.end()
        before = self.role
        on.standing.learn(seen)
        self._claim.on_new_view()
        self._acceptance.follow_view(seen.value)
        self._become(Role.BACKUP if on.standing.own_entry is not None else Role.LEARNER)
        self._acceptance.is_stopped = False
        if seen.value.generation == seen.value.epoch and on.standing.own_entry is not None:
            on.application.on_forced()
        self._state_request.look()
        self._take_ahead()
        if before in (Role.BACKUP, Role.CLAIMING) or (before, self.role) == (Role.LEARNER, Role.BACKUP):
            self._join_request.soon()
        else:
            self._join_request.while_unfed()
        self._maybe_claim()

    def _take_ahead(self) -> None:
        if (ahead := self._early.take_ahead()) is not None:
            self.on_message(*ahead)

    def _maybe_claim(self) -> None:
        """Claim if there is a reason to. Only the latest view says whether this member is listed."""
        if self.role in (Role.BACKUP, Role.LEARNER) and not self._check_epoch() and self.role is Role.BACKUP:
            self._claim.maybe_claim()

    def _check_epoch(self) -> bool:
        """If an epoch is only heard of, ask the authority who won it: perhaps nobody did (K7)."""
        if is_unknown := self._on.standing.epoch < self._on.epoch:
            self._view_requests.read()
        return is_unknown

    def _become(self, role: Role) -> None:
        invariant(role in TRANSITIONS[self.role], f"a {self.role.value} member does not become {role.value}")
        if role is not self.role:
            self._on.note("role", role=role.value, epoch=self._on.epoch)
        self.role = role

    def _halt(self, why: str) -> None:
        if self.role is Role.PRIMARY:
            self._lead.end()
        if self.role is Role.HALTED:
            return
        self._become(Role.HALTED)
        self._acceptance.is_stopped = True
        self._learning.stop()
        self._join_request.end()
        self._on.note("halted", why=why)

    def _give_up(self, why: str) -> None:
        if self.role is not Role.HALTED:
            self._halt(why)
            self._on.ports.on_halted(self._on.group, why)

    def _begin_claiming(self, wanted: ViewChange) -> None:
        self._become(Role.CLAIMING)
        self._acceptance.is_stopped = True
        self._view_requests.change(wanted)
        self._early.on_claim(wanted, is_unproven=self._claim.is_unproven)

    def _won(self, seen: Seen[View]) -> None:
        on = self._on
        on.standing.learn(seen)
        on.epoch = seen.value.epoch
        on.note("won", epoch=on.epoch, members=[each.host for each in seen.value.members])
        if self.role is Role.PRIMARY:
            self._submission.go_on()
        else:
            self._become(Role.PRIMARY)
            self._acceptance.follow(on.epoch, None)
            self._learning.stop()
            self._submission.begin(is_unproven=self._claim.is_unproven)
            for answer in self._early.take_answers():
                self._lead.on_message(*answer)
        self._lead.after_progress()
        self._take_newer_view()

    def _take_newer_view(self) -> None:
        """Take in a view that arrived while our change was unanswered, if it is newer than the answer."""
        newer, self._newer_view = self._newer_view, None
        if newer is not None:
            self.on_view(newer)

    def _lost(self, standing: Seen[View]) -> None:
        """Take the place that the present view gives this member, because another change came first."""
        self._learn(standing)
        self._take_newer_view()
        if (waiting := self._early.take_submit()) is not None:
            self.on_message(*waiting)

    def _unmet(self) -> None:
        """Handle that our change was not made, because the group's record has changed."""
        self._lead.on_unmet()
        self._take_newer_view()

    def _reclaim(self) -> None:
        """Claim again, because nobody took the released group; that epoch is over for us too (K5)."""
        self._lead.end()
        self._become(Role.BACKUP)
        self._claim.release(self._on.standing.epoch)
        self._claim.maybe_claim()

    def _on_first_heard(self) -> None:
        """Tell the primary, first of all, whether this member lacks its object and must not take over."""
        self._join_request.on_fed()
        self._state_request.look()
