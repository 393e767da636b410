"""One member of a group: its role, and which machine gets which event.

The machines decide; this module knows only who is in charge when. A process never resumes a role (V3): a
member begins by reading the view, then follows, learns, or claims; primary it becomes only by winning an
epoch.
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
from holdfast.sequence.member_state import MemberState, MemberTimer, MemberTimers
from holdfast.sequence.messages import GroupMessage
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
    """One member. The host feeds it messages, views, proofs of death, and ends it with its process."""

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
        self._overtaking: Seen[View] | None = None
        """The newest view heard of while a change of our own was unanswered."""
        self._meanwhile: tuple[HostId, messages.Submit] | None = None
        """What the winner of a claim said, last, to this member before it knew that its own was lost."""
        self._on = on = MemberState(
            group, me, config, ports, application, store, ViewState(me), committed, is_doubtful=is_doubtful
        )
        self._alarms = MemberTimers(ports.timers, self._on_alarm)
        self._inquiry = ViewRequests(
            on,
            self._alarms,
            on_read=self._on_read,
            on_won=self._won,
            on_lost=self._lost,
            on_unmet=self._unmet,
            on_hopeless=self._give_up,
        )
        self._reign = Primary(on, self._alarms, self._inquiry, on_overdue=self._reclaim)
        self._acceptance = Acceptance(on)
        self._learning = Learning(on, self._acceptance.ask)
        self._claim = Claim(on, self._begin_claiming, partial(self._alarms.set, MemberTimer.CLAIM))
        self._loss = StateLoss(on)
        self._asking = JoinRequest(on, self._alarms, self._acceptance, self._loss, lambda: self.role)
        self._lack = StateRequest(on, self._alarms, self._acceptance, lambda: self.role)
        self._acceptance.on_first_heard = self._on_first_heard
        self._reads = ReadRights(on, self._reign.submission, self._reign.handover, self.on_view)

    # --- what the application and the host may ask

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
        """What its records take until a checkpoint stands for them, on this host; a primary's, where they
        take most (D4)."""
        own = self._on.store.live_bytes
        return own if self.role is not Role.PRIMARY else max(own, self._reign.submission.longest_log())

    @property
    def is_serving(self) -> bool:
        """Whether it takes calls."""
        return self._reign.is_serving

    @property
    def primary(self) -> HostId | None:
        """Who is primary, as far as this member knows."""
        if self.role is Role.PRIMARY:
            return self._on.me.host
        return self._acceptance.primary

    @property
    def standing(self) -> ViewState:
        return self._on.standing

    @property
    def is_lost(self) -> bool:
        """Whether the group's state is gone with all who held it (V4)."""
        return self._loss.is_total

    def held(self, number: int) -> messages.Held:
        """What this member holds, for who thinks of a forced recovery."""
        return held(self._on, number, self.role, is_serving=self.is_serving)

    @property
    def is_doubtful(self) -> bool:
        return self._on.is_doubtful

    def start(self, seen: Seen[View] | None = None) -> None:
        """Find out where this member stands (V3). *seen*: a view that this process has read already, or was
        told of; it counts unless the log has followed a later one."""
        if seen is not None and seen.value.epoch >= self._on.store.followed:
            self._on_read(seen)
        else:
            self._inquiry.read()

    def submit(self, body: bytes, count: int = 1) -> Position:
        """Order *count* operations as one record; answers the last one's position. Call :meth:`flush` once
        per turn. Raises ``Unavailable`` unless serving, ``Overloaded`` at a bound, ``InvalidRequest`` for a
        body longer than ``record_bytes_max``; then nothing has changed."""
        if not self.is_serving:
            why = "its state is lost" if self.is_lost else "it is not served here"
            raise Unavailable(f"group {self._on.group}: {why}")
        return self._reign.submission.order(body, count)

    def flush(self) -> None:
        """Send and sync what was submitted in this turn (S5)."""
        self._reign.flush()

    def read(self, first: Position, last: Position) -> list[Record]:
        """Records that hold these positions, as they lie in the log."""
        return self._on.store.read(first, last)

    def may_read(self) -> bool:
        """Whether a query may be answered from this member's own state, at this moment (R1)."""
        return self._reads.may_read()

    def confirm_read(self, then: Callable[[bool], None]) -> None:
        """Ask the authority, *then* say whether a query that ran before this call may be answered (R2)."""
        self._reads.confirm(then)

    def hand_over(self, to: HostId, why: str = "") -> None:
        """Let the in-sync backup on *to* become primary (K5); *why*, for the group's history."""
        self._reign.hand_over(to, why)

    def successors(self) -> list[HostId]:
        """Whom a primary could hand over to, the fittest first (O3, E8)."""
        return self._reign.successors()

    def rank_of(self, host: HostId) -> Rank:
        """How fit to lead the listed member there is, as far as this primary knows."""
        found = [self._reign.submission.rank_of(each) for each in self.standing.listed if each.host == host]
        return found[0] if found else Rank.NEAR

    # --- events from the host

    def on_fitness(self) -> None:
        """Its object is not there any more, or is again: whoever is primary is told (O3, E8)."""
        if self.role not in (Role.WAITING, Role.HALTED):
            self._lack.look()
            self._maybe_claim()

    def halt(self, why: str) -> None:
        """Its host wants it to stop for good, and says why: the group goes on without it."""
        self._give_up(why)

    def on_view(self, seen: Seen[View]) -> None:
        """A view that stands or stood at the authority: read, watched, or found in the way of a change."""
        on = self._on
        if self.role is Role.HALTED or seen.value.epoch <= on.standing.epoch:
            return
        if on.standing.pending is not None:
            # The answer to our own change will come, and mostly say more; not if it was on its way before.
            if self._overtaking is None or self._overtaking.value.epoch < seen.value.epoch:
                self._overtaking = seen
            return
        self._learn(seen)

    def on_record(self, seen: Seen[GroupRecord]) -> None:
        """Where the group shall have members, as a watch tells it (M5, M6)."""
        standing = self._on.standing
        if standing.record is None or standing.record.modified < seen.modified:
            standing.record = seen
            self._reign.on_record()

    def leave(self) -> None:
        """The host has no member of this group any more: what was begun ends, and nothing is begun (M6)."""
        self._halt("it has left the group")

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        """The host's own agent has proof of it (K2): a primary's group is claimed, a backup is dropped."""
        dead = self._on.dead
        dead[host] = max(incarnation, dead.get(host, incarnation))
        if self._reign.submission.is_reigning:
            self._reign.change_what_must()
        else:
            self._maybe_claim()

    def on_silence(self, host: HostId) -> None:
        """A promise to *host* has run out. Who follows a later primary than its view names is not concerned:
        a thousand such groups would only ask the authority for what it is about to tell."""
        is_current = self._on.standing.epoch == self._on.epoch
        if self._acceptance.primary == host or (self.role is Role.BACKUP and is_current):
            self._maybe_claim()

    def is_backup_in(self, epoch: Epoch, asked_by: HostId) -> bool:
        """Answers a ``Confirm`` of the primary's host (R1)."""
        if self.role is not Role.BACKUP or self._on.epoch != epoch or self._acceptance.primary != asked_by:
            return False
        self._on.confirm(asked_by, self._on.ports.leases.latest_beat(asked_by)[0], epoch)
        return True

    def on_confirmed(self, host: HostId, incarnation: Incarnation, epoch: Epoch, beat: int) -> None:
        self._reign.submission.on_confirmed(host, incarnation, epoch, beat)

    def on_message(self, peer: HostId, message: GroupMessage) -> None:
        if isinstance(message, messages.Inspect):
            self._on.send(peer, self.held(message.number))
            return
        if self.role in (Role.WAITING, Role.HALTED):
            return  # nothing is acknowledged before the view was read (V3)
        on = self._on
        on.heard_of(peer, message.epoch)
        if message.epoch < on.epoch and not isinstance(message, messages.Accepted | messages.Hello):
            if isinstance(message, messages.Submit | messages.Offer | messages.Compare):
                on.send(peer, messages.Refused(on.group, on.epoch))
            return
        if self.role is Role.PRIMARY:
            self._reign.on_message(peer, message)
            if message.epoch > on.epoch:
                # Someone knows of a later epoch than ours: look who won it.
                if isinstance(message, messages.Compare):
                    # And waits, because of what it told us in ours: we read by that no more, and say so.
                    on.overtaken_in = max(on.overtaken_in, message.epoch)
                    on.send(peer, messages.Refused(on.group, message.epoch))
                self._inquiry.read()
        else:
            self._on_message_as_follower(peer, message)

    def _on_message_as_follower(self, peer: HostId, message: GroupMessage) -> None:
        match message:
            case messages.Submit():
                self._on_submit(peer, message)
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
                    if self._lack.is_unfit:
                        self._lack.tell()  # it shall not wait for this one (E8)
                        return
                    self._claim.release(epoch, why)
                    self._maybe_claim()
            case messages.Waived(epoch=epoch) if epoch == self._on.epoch:
                self._claim.precedence.on_waived(peer)
                self._maybe_claim()
            case messages.Refused():
                self._inquiry.read()

    def _on_alarm(self, alarm: MemberTimer) -> None:
        match alarm:
            case _ if self.role is Role.HALTED:
                return
            case MemberTimer.SWEEP | MemberTimer.NOTIFY if self.role is Role.PRIMARY:
                self._reign.sweep()
            case MemberTimer.CLAIM if self.role is Role.BACKUP:
                self._on_time_to_claim()
            case MemberTimer.ASK:
                self._asking.while_unfed()
            case MemberTimer.READ:
                self._inquiry.read()
            case MemberTimer.CHANGE:
                self._inquiry.change_again()
            case MemberTimer.LACK:
                self._lack.look()

    def _on_time_to_claim(self) -> None:
        on = self._on
        if self._claim.is_comparing:
            self._claim.decide()
        elif on.standing.epoch == on.epoch or not self._acceptance.is_fed_since(None):
            self._maybe_claim()
        # Else another has claimed, and is followed: of its view, its death and its silence we are told.

    # --- the view

    def _on_read(self, seen: Seen[View]) -> None:
        """What stands at the authority, or stood a moment ago."""
        if seen.value.epoch > self._on.standing.epoch:
            self.on_view(seen)
        else:
            self._maybe_claim()

    def _learn(self, seen: Seen[View]) -> None:
        """Take the place that *seen* gives this member; never that of the primary (V3)."""
        on = self._on
        if is_of_another_generation(on, seen.value):
            self._halt(f"epoch {seen.value.generation} was a forced recovery from another member")
            on.ports.on_superseded(on.group)
            return
        if self.role is Role.PRIMARY:
            self._reign.end()
        before = self.role
        on.standing.learn(seen)
        self._claim.on_new_view()
        view = seen.value
        if view.epoch >= on.epoch:
            is_own = view.primary == on.me.host
            self._acceptance.follow(view.epoch, None if is_own else view.primary)
        self._become(Role.BACKUP if on.standing.own_entry is not None else Role.LEARNER)
        self._acceptance.is_stopped = False
        if view.generation == view.epoch and on.standing.own_entry is not None:
            on.application.on_forced()
        self._lack.look()
        if before in (Role.BACKUP, Role.CLAIMING) or (before, self.role) == (Role.LEARNER, Role.BACKUP):
            self._asking.soon()
        else:
            self._asking.while_unfed()
        self._maybe_claim()

    def _maybe_claim(self) -> None:
        """There may be ground to claim; only the latest view says whether this member is listed."""
        if self.role not in (Role.BACKUP, Role.LEARNER):
            return
        if self._on.standing.epoch < self._on.epoch:
            self._inquiry.read()
        elif self.role is Role.BACKUP:
            self._claim.maybe_claim()

    def _become(self, role: Role) -> None:
        invariant(role in TRANSITIONS[self.role], f"a {self.role.value} member does not become {role.value}")
        if role is not self.role:
            self._on.note("role", role=role.value, epoch=self._on.epoch)
        self.role = role

    def _halt(self, why: str) -> None:
        if self.role is Role.PRIMARY:
            self._reign.end()
        if self.role is Role.HALTED:
            return
        self._become(Role.HALTED)
        self._acceptance.is_stopped = True
        self._learning.stop()
        self._asking.end()
        self._on.note("halted", why=why)

    def _give_up(self, why: str) -> None:
        if self.role is not Role.HALTED:
            self._halt(why)
            self._on.ports.on_halted(self._on.group, why)

    # --- changes of the view, one's own

    def _begin_claiming(self, wanted: ViewChange) -> None:
        self._meanwhile = None
        self._become(Role.CLAIMING)
        self._acceptance.is_stopped = True
        self._inquiry.change(wanted)

    def _won(self, seen: Seen[View]) -> None:
        on = self._on
        on.standing.learn(seen)
        on.epoch = seen.value.epoch
        on.note("won", epoch=on.epoch, members=[member.host for member in seen.value.members])
        if self.role is Role.PRIMARY:
            self._reign.submission.go_on()
        else:
            self._become(Role.PRIMARY)
            self._acceptance.follow(on.epoch, None)
            self._learning.stop()
            self._reign.submission.begin(is_unproven=self._claim.is_unproven)
        self._reign.after_progress()
        self._hear_what_overtook()

    def _hear_what_overtook(self) -> None:
        """Our change is answered; a view that was heard of before may be newer than the answer."""
        overtaking, self._overtaking = self._overtaking, None
        if overtaking is not None:
            self.on_view(overtaking)

    def _lost(self, standing: Seen[View]) -> None:
        """Another change came first: what stands now says where this member stands."""
        self._learn(standing)
        self._hear_what_overtook()
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            self.on_message(*meanwhile)

    def _unmet(self) -> None:
        """Our change was not made, since the record has changed."""
        self._reign.on_unmet()
        self._hear_what_overtook()

    def _reclaim(self) -> None:
        """Nobody took what was released; this epoch is over for us all the same (K5)."""
        seen = self._on.standing.seen
        assert seen is not None
        self._reign.end()
        self._become(Role.BACKUP)
        self._claim.release(seen.value.epoch)
        self._claim.maybe_claim()

    # --- as follower

    def _on_first_heard(self) -> None:
        """A primary has spoken in this epoch. Before it is told anything else it knows who should not be
        handed its group: when it serves, all have answered."""
        self._asking.on_fed()
        self._lack.look()

    def _on_submit(self, peer: HostId, submit: messages.Submit) -> None:
        if self.role is Role.CLAIMING:
            # First the answer to our claim. If another has won, this is what it waits to have accepted.
            self._meanwhile = (peer, submit)
            return
        if submit.epoch == self._on.epoch and self._acceptance.primary not in (None, peer):
            self._on.note("two_primaries", of=submit.epoch, known=self._acceptance.primary, other=peer)
            return
        self._acceptance.on_submit(peer, submit)
