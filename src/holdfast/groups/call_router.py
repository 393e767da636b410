"""Serves clients: routes each frame of calls by the newest view, passes it to the group, and sends the
answers.

A frame that is turned away was not executed. If a frame was accepted but this host can no longer answer it,
the host cannot say whether it was executed. It closes the connection, and the client asks the new primary
with the same request ids.

:class:`Refusals` logs the calls that this host turns away, with the reason and the trace.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import NoAnswer, Recipes
from holdfast.authority.recipe import Seen as SeenAt
from holdfast.authority.sessions import Session
from holdfast.authority.views import NoGroup, View, read_view
from holdfast.clock.errors import FutureNotStored
from holdfast.execution.records import Call, LaneSent, Sent, decode_calls, decode_sent_calls
from holdfast.groups.catalog import Found, GroupCatalog, found_at_authority
from holdfast.groups.early_calls import EarlyCalls
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import ClientPort, MakeTimers
from holdfast.groups.stale_reads import Read, StaleReads
from holdfast.groups.stamps import Stamps
from holdfast.groups.subscribers import GroupSubscribers, HostSubscribers
from holdfast.model.calls import (
    REPLIES_PER_FRAME_MAX,
    Calls,
    Follow,
    FollowHosts,
    Locate,
    Located,
    Nested,
    Ping,
    Pong,
    Reads,
    Redirected,
    RefusalCode,
    Replies,
    Seen,
    Settle,
    ToHost,
    Turned,
)
from holdfast.model.errors import InvalidRequest, Overloaded, Unavailable, invariant
from holdfast.model.ids import MILLISECOND, ClientId, Epoch, GroupId, Position
from holdfast.model.ports import Clock
from holdfast.model.reference import Reference, Routing, route
from holdfast.net.frame import UNDECODABLE
from holdfast.sequence.role import Role
from holdfast.styles.app_controlled import AppControlled
from holdfast.styles.call_log import CallLog
from holdfast.styles.ports import Token
from holdfast.styles.stateless import Stateless

Asked = Calls | Reads | Settle | Nested
"""A frame that is addressed to a group."""

_sent_in: Final = msgspec.msgpack.Decoder(Sent)


class Refusals:
    """Logs the frames that one host turned away."""

    def __init__(self, lines: CallLog | None, catalog: GroupCatalog) -> None:
        self._lines = lines
        self._catalog = catalog

    def tell(self, asked: Asked, code: RefusalCode, why: str) -> None:
        """Log that nothing of the frame was executed. The frame is decoded only if the log has room for a
        line, because an overloaded host has the least time for this."""
        if self._lines is None:
            return
        if not self._lines.has_room():
            self._lines.leave_out(1)
            return
        record = self._catalog.records.get(asked.group)
        group = record.name if record is not None else str(asked.group)
        client, calls = calls_of(asked)
        self._lines.tell("a call was refused", group, client, calls, code=code.value, why=why)


def calls_of(asked: Asked) -> tuple[ClientId, list[Call]]:
    """Return the client and its calls. There are no calls if the frame is a question or cannot be decoded."""
    try:
        match asked:
            case Calls(sent=raw) | Nested(sent=raw):
                sent = _sent_in.decode(raw)
                return sent.client, decode_calls(sent.calls)
            case Reads(client=client, calls=calls):
                return client, decode_calls(calls)
            case _:
                return ClientId(""), []
    except UNDECODABLE:
        return ClientId(""), []


REPLY_BYTES_MAX: Final = 8 << 20
"""The most bytes of outcomes in one frame, unless a single outcome is longer. This is well below the longest
frame of a connection."""
ONE_FRAME: Final = [(0, 1)]
"""The one range of a single outcome."""
TEXT_MAX: Final = 1_000
LOOK_UPS_MAX: Final = 16
"""How many views this host reads at once for requests that know a newer view than it does. Further such
requests are turned away: when a thousand groups move, the watch delivers their views sooner than the
authority could answer."""

_sent: Final = msgspec.msgpack.Decoder(LaneSent)


class Asker(msgspec.Struct, frozen=True, eq=False):
    """Who gets the answer. *number* is the number of the question, if the reply does not carry the request's
    own."""

    client: ClientPort
    hosted: HostedGroup
    number: int | None = None


class Answers:
    """Sends replies to clients, or closes their connections."""

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps

    def answer(self, token: Token, numbers: list[int], outcomes: list[bytes]) -> None:
        assert isinstance(token, Asker)  # CallRouter, below, makes these tokens
        hosted = token.hosted
        seen = Seen(hosted.member.epoch, hosted.member.committed)
        time_ns = hosted.time_ns(self._stamps.time_ns)
        if token.number is not None:
            numbers = [token.number] * len(outcomes)
        for first, last in _frames(outcomes) if len(outcomes) > 1 else ONE_FRAME:
            replies = Replies(hosted.group, numbers[first:last], outcomes[first:last], seen, time_ns)
            token.client.send(replies)

    def forsake(self, token: Token) -> None:
        """Close the connection of a client whose call may or may not be executed: only another primary can
        say."""
        assert isinstance(token, Asker)
        token.client.hang_up("this host serves the group no longer")


class CallRouter:
    """Routes the calls of the clients that are connected to one host."""

    def __init__(
        self,
        hosted: Mapping[GroupId, HostedGroup],
        catalog: GroupCatalog,
        answers: Answers,
        stamps: Stamps,
        recipes: Recipes,
        stale_reads: StaleReads,
        clock: Clock,
        timers: MakeTimers,
        lines: CallLog | None = None,
    ) -> None:
        self._hosted = hosted
        self._catalog = catalog
        self._answers = answers
        self._stamps = stamps
        self._recipes = recipes
        self._group_followers = GroupSubscribers()
        self._host_followers = HostSubscribers()
        self.stale_reads = stale_reads
        self._clock = clock
        self._refusals = Refusals(lines, catalog)
        self._look_ups = 0
        self._early = EarlyCalls(clock, timers, is_awaited=self._is_taken_over, judge=self._judge_again)
        self._told_early: dict[GroupId, None] = {}
        """The groups whose followers were told that they will be served here, and of which nobody was turned
        away since."""

    def on_won(self, group: GroupId) -> None:
        """Tell the group's followers that it will be served here in a moment: what they send meanwhile
        waits. A group that takes longer is told of when it is served."""
        if self._is_taken_over(group):
            self._tell(group)
            self._told_early[group] = None

    def on_served(self, group: GroupId) -> None:
        """Tell the group's followers that it is served here, or in a new view, so that they need not find
        out; and serve the calls that wait for that."""
        if group not in self._told_early:
            self._tell(group)
        self._told_early.pop(group, None)
        hosted = self._hosted.get(group)
        if hosted is not None:
            for client, asked in self._early.take(group):
                # Their reference may be that of the view before; they were sent here all the same.
                self._serve_or_turn(client, asked, hosted)

    def on_removed(self, group: GroupId) -> None:
        """Forget the followers of a group that no longer exists."""
        self._group_followers.forget(group)

    def on_hosts(self, sessions: Iterable[Session]) -> None:
        """Tell followers which hosts are in session now."""
        self._host_followers.tell(sessions)

    def on_gone(self, client: ClientPort) -> None:
        """Forget a client whose connection has ended."""
        self._group_followers.on_gone(client)
        self._host_followers.on_gone(client)
        self._early.on_gone(client)

    def on_call(self, client: ClientPort, message: ToHost) -> None:
        """Handle a frame from a client."""
        match message:
            case Ping(number=number):
                client.send(Pong(number))
            case Locate() as locate:
                self._locate(client, locate)
            case Follow(group=group):
                self._group_followers.add(group, client)
            case FollowHosts():
                self._host_followers.add(client)
            case Reads() as asked:
                self._judge(client, asked, is_looked_up=False)
            case asked:
                hosted = self._hosted.get(asked.group)
                is_taken_over = hosted is not None and hosted.has_claimed and hosted.is_taking_over
                if not is_taken_over or not self._early.add(client, asked):
                    self._judge(client, asked, is_looked_up=False)

    # --- routing (FTC-78 to 85)

    def _judge(self, client: ClientPort, asked: Asked, *, is_looked_up: bool) -> None:
        hosted, seen = self._hosted.get(asked.group), self._catalog.views.get(asked.group)
        if hosted is not None and seen is not None and hosted.member.role is Role.PRIMARY:
            own = hosted.member.standing.seen
            is_newest = own is not None and seen.value.epoch <= own.value.epoch == asked.version
            if is_newest and asked.group in self._catalog.records:
                # As nearly always: the client knows the newest view, and this member leads in it.
                self._serve_or_turn(client, asked, hosted)
                return
        known = self._catalog.version(asked.group, None if hosted is None else hosted.view)
        verdict = route(
            asked.version,
            known or Epoch(0),
            is_primary=hosted is not None and (hosted.is_primary or _any_member_may_serve(asked, hosted)),
            is_looked_up=is_looked_up,
        )
        if verdict is Routing.LOOK_UP:
            self._look_up(client, asked)
        elif known is None and asked.group in self._catalog.views:
            # This host has not received the group's record yet, but others have.
            self._turn(client, asked, RefusalCode.NOT_HERE)
        elif known is None:
            self._turn(client, asked, RefusalCode.NO_SUCH_GROUP, f"there is no group {asked.group}")
        elif verdict is Routing.FORWARD:
            self._redirect(client, asked)
        elif verdict is Routing.BAD_REFERENCE:
            self._turn(client, asked, RefusalCode.BAD_REFERENCE, f"no version {asked.version} was issued")
        elif verdict is Routing.NOT_PRIMARY and hosted is not None and hosted.member.is_lost:
            said = f"group {asked.group}: its state is lost with the processes that held it"
            self._turn(client, asked, RefusalCode.UNAVAILABLE, said)
        elif verdict is Routing.NOT_PRIMARY or hosted is None:
            self._turn(client, asked, RefusalCode.NOT_PRIMARY if hosted else RefusalCode.NOT_HERE)
        else:
            self._serve_or_turn(client, asked, hosted)

    def _is_taken_over(self, group: GroupId) -> bool:
        hosted = self._hosted.get(group)
        return hosted is not None and hosted.is_taking_over

    def _judge_again(self, client: ClientPort, asked: Asked) -> None:
        """Judge a frame that has waited in vain: another member is primary, or this one takes long."""
        self._judge(client, asked, is_looked_up=False)

    def _redirect(self, client: ClientPort, asked: Asked) -> None:
        reference = self._reference(asked.group)
        invariant(reference is not None, "what has a version has a reference")
        if reference is not None:
            self._refusals.tell(asked, RefusalCode.NOT_PRIMARY, f"its primary is {reference.primary}")
            client.send(Redirected(asked.frame, reference))

    def _look_up(self, client: ClientPort, asked: Asked) -> None:
        if self._look_ups < LOOK_UPS_MAX:
            self._look_ups += 1
            self._recipes.start(read_view(asked.group), partial(self._looked_up, client, asked))
        else:
            self._turn(client, asked, RefusalCode.UNAVAILABLE, "this host has not heard of that view yet")

    def _looked_up(self, client: ClientPort, asked: Asked, found: SeenAt[View] | NoGroup | NoAnswer) -> None:
        self._look_ups -= 1
        if isinstance(found, SeenAt):
            self._catalog.learn(found)
        if isinstance(found, NoAnswer):
            self._turn(client, asked, RefusalCode.UNAVAILABLE, "the authority does not answer")
        else:
            self._judge(client, asked, is_looked_up=True)

    # --- serving

    def _serve_or_turn(self, client: ClientPort, asked: Asked, hosted: HostedGroup) -> None:
        try:
            self._serve(client, asked, hosted)
        except FutureNotStored as error:
            # Nothing was ordered. It can be in a moment, and a client that tries elsewhere would only come
            # back.
            again = partial(self._judge, client, asked, is_looked_up=False)
            if not self._stamps.once_stored(again):
                self._turn(client, asked, RefusalCode.OVERLOADED, str(error))
        except Unavailable as error:
            self._turn(client, asked, RefusalCode.UNAVAILABLE, str(error))
        except Overloaded as error:
            self._turn(client, asked, RefusalCode.OVERLOADED, str(error))
        except (InvalidRequest, msgspec.DecodeError) as error:
            self._turn(client, asked, RefusalCode.INVALID, str(error))
        hosted.ask_turn()

    def _serve(self, client: ClientPort, asked: Asked, hosted: HostedGroup) -> None:
        style = hosted.style
        match asked:
            case Calls(sent=sent) | Nested(sent=sent):
                asker = Asker(client, hosted, asked.number if isinstance(asked, Nested) else None)
                if isinstance(style, Stateless):
                    self._answers.answer(asker, *style.execute(_sent.decode(sent)))
                else:
                    style.on_calls(asker, _sent.decode(sent))
            case Settle():
                asker = Asker(client, hosted, asked.number)
                about = (asked.asked_client, asked.asked_number, asked.asked_expiration_s)
                hosted.replica.on_outcome_asked(asker, *about, withdraws=asked.withdraws)
            case Reads():
                self._read(Asker(client, hosted), asked)

    def _read(self, asker: Asker, asked: Reads) -> None:
        """Answer a stale read. A primary that may read has current data (R1), once its object has caught up.
        Any other member must find out how old its state is, and must have reached what the client has seen
        (S7)."""
        hosted, member = asker.hosted, asker.hosted.member
        calls = decode_sent_calls(asked.calls)
        if asked.seen.epoch > member.epoch:
            self._turn(asker.client, asked, RefusalCode.BEHIND, "the client has seen a later view")
        elif member.is_serving and member.may_read() and hosted.replica.reached >= member.committed:
            hosted.replica.on_stale_queries(asker, asked.client, calls)
        else:
            # A position seen in a history that a recovery gave up no longer exists (V4).
            is_given_up = hosted.view is not None and asked.seen.epoch < hosted.view.generation
            read = Read(
                self._clock.now() - asked.stale_ms * MILLISECOND,
                Position(0) if is_given_up else asked.seen.position,
                partial(self._answer_read, asker, asked, calls),
                partial(self._turn, asker.client, asked, RefusalCode.BEHIND),
            )
            self.stale_reads.read(hosted, read)

    def _answer_read(self, asker: Asker, asked: Reads, calls: list[Call]) -> None:
        try:
            asker.hosted.replica.on_stale_queries(asker, asked.client, calls)
        except Unavailable as error:
            self._turn(asker.client, asked, RefusalCode.BEHIND, str(error))
        except InvalidRequest as error:
            self._turn(asker.client, asked, RefusalCode.INVALID, str(error))

    # --- finding groups

    def _locate(self, client: ClientPort, asked: Locate) -> None:
        # The name counts if there is one: it is what a client's rights were compared with.
        group = (self._catalog.find(asked.name) if asked.name else asked.group) or GroupId(0)
        reference = self._reference(group)
        if reference is not None:
            hosted, here_ns = self._hosted.get(group), self._stamps.time_ns
            time_ns = hosted.time_ns(here_ns) if hosted is not None else here_ns()
            client.send(Located(asked.frame, reference, time_ns))
        else:
            # The group may be so new that this host has not received its record yet.
            recipe = found_at_authority(asked.name, asked.group)
            self._recipes.start(recipe, partial(self._located, client, asked))

    def _located(self, client: ClientPort, asked: Locate, found: Found) -> None:
        if isinstance(found, tuple):
            reference = self._catalog.reference_of(*found)
            client.send(Located(asked.frame, reference, self._stamps.time_ns()))
            return
        what = repr(asked.name) if asked.name else str(asked.group)
        match found:
            case NoAnswer():
                code, text = RefusalCode.UNAVAILABLE, "the authority does not answer"
            case GroupRecord():
                code, text = RefusalCode.UNAVAILABLE, f"group {what} has no members yet"
            case _:
                code, text = RefusalCode.NO_SUCH_GROUP, f"there is no group {what}"
        client.send(Turned(asked.frame, GroupId(0), code, text[:TEXT_MAX]))

    def _reference(self, group: GroupId) -> Reference | None:
        hosted = self._hosted.get(group)
        return self._catalog.reference(group, None if hosted is None else hosted.view)

    def _tell(self, group: GroupId) -> None:
        reference = self._reference(group)
        if reference is not None:
            self._group_followers.tell(reference)

    def _turn(self, client: ClientPort, asked: Asked, code: RefusalCode, text: str = "") -> None:
        self._told_early.pop(asked.group, None)
        self._refusals.tell(asked, code, text)
        client.send(Turned(asked.frame, asked.group, code, text[:TEXT_MAX]))


def _any_member_may_serve(asked: Asked, hosted: HostedGroup) -> bool:
    """Whether any member may serve the frame, not only the primary."""
    is_alike = isinstance(hosted.style, Stateless) and not isinstance(hosted.style, AppControlled)
    return isinstance(asked, Reads) or is_alike


def _frames(outcomes: list[bytes]) -> list[tuple[int, int]]:
    """Return the ranges into which *outcomes* must be cut so that no frame is too long."""
    first, size, ranges = 0, 0, []
    for index, outcome in enumerate(outcomes):
        if index > first and (
            size + len(outcome) > REPLY_BYTES_MAX or index - first == REPLIES_PER_FRAME_MAX
        ):
            ranges.append((first, index))
            first, size = index, 0
        size += len(outcome)
    ranges.append((first, len(outcomes)))
    return ranges
