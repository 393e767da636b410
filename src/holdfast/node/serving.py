"""Serving clients: frames of calls are judged by the newest view, handed to the group, answered when final.

A frame that is turned away was not executed. Of one that was taken and cannot be answered here any more
nothing may be said, so its connection is ended: its client asks the new primary, with the same request ids.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from holdfast.authority.groups import NoSuchName, find_group, read_group
from holdfast.authority.outcome import Seen as SeenAt
from holdfast.authority.recipe import Authority, perform
from holdfast.authority.views import NoGroup, read_view
from holdfast.clock.errors import FutureNotStored
from holdfast.model.calls import (
    REPLIES_PER_FRAME_MAX,
    Calls,
    Locate,
    Located,
    Ping,
    Pong,
    Reads,
    Redirected,
    RefusalCode,
    Replies,
    Request,
    Seen,
    Settle,
    ToClient,
    Turned,
    decode_to_host,
    encode_message,
)
from holdfast.model.errors import HoldfastError, InvalidRequest, Overloaded, Unavailable
from holdfast.model.ids import Epoch, GroupId
from holdfast.model.reference import Routing, route
from holdfast.net import Connection, Kind, Reason, Why
from holdfast.node.housed import Housed
from holdfast.styles.operation import Sent, decode_calls
from holdfast.styles.ports import Token
from holdfast.styles.stateless import Stateless

if TYPE_CHECKING:
    from holdfast.node.groups import Groups

REPLY_BYTES_MAX: Final = 8 << 20
"""Outcomes in one frame, unless a single one is longer: well below a connection's longest frame."""
TEXT_MAX: Final = 1_000

log = structlog.get_logger("holdfast.calls")
_sent: Final = msgspec.msgpack.Decoder(Sent)
Asked = Calls | Reads | Settle


@dataclass(frozen=True, slots=True, eq=False)
class Asker:
    """Whom to answer. *number*: of the question, where the reply does not carry the request's own."""

    connection: Connection
    housed: Housed
    number: int | None = None


class Answers:
    """Replies and farewells to those who asked."""

    def __init__(self, groups: "Groups") -> None:
        self._groups = groups

    def answer(self, token: Token, numbers: list[int], outcomes: list[bytes]) -> None:
        assert isinstance(token, Asker)  # given by Serving, below
        housed = token.housed
        seen = Seen(housed.member.epoch, housed.member.committed)
        time_ns = self._groups.stamps.time_ns()
        if token.number is not None:
            numbers = [token.number] * len(outcomes)
        for first, last in _frames(outcomes):
            replies = Replies(housed.group, numbers[first:last], outcomes[first:last], seen, time_ns)
            send(token.connection, replies)

    def forsake(self, token: Token) -> None:
        """It may be executed or not: only another primary can say."""
        assert isinstance(token, Asker)
        token.connection.close(Reason(Why.DONE, "this host serves the group no longer"))


class Serving:
    """The clients of one host."""

    def __init__(self, groups: "Groups", authority: Authority) -> None:
        self._groups = groups
        self._directory = groups.directory
        self._authority = authority
        self._tasks: dict[asyncio.Task[None], None] = {}

    def on_call(self, connection: Connection, payload: bytes) -> None:
        """A client's frame. Raises ``msgspec.DecodeError`` for anything else."""
        match decode_to_host(payload):
            case Ping(number=number):
                send(connection, Pong(number))
            case Locate() as locate:
                self._locate(connection, locate)
            case asked:
                self._judge(connection, asked, is_looked_up=False)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- judging (FTC-78 to 85)

    def _judge(self, connection: Connection, asked: Asked, *, is_looked_up: bool) -> None:
        housed = self._groups.housed.get(asked.group)
        reference = self._directory.reference(asked.group, None if housed is None else housed.view)
        known = reference.version if reference is not None else Epoch(0)
        verdict = route(
            asked.version,
            known,
            is_primary=housed is not None and (housed.is_primary or isinstance(housed.style, Stateless)),
            is_looked_up=is_looked_up,
        )
        if verdict is Routing.LOOK_UP:
            self._start(self._look_up(connection, asked))
        elif reference is None:
            self._turn(connection, asked, RefusalCode.NO_SUCH_GROUP, f"there is no group {asked.group}")
        elif verdict is Routing.FORWARD:
            send(connection, Redirected(asked.frame, reference))
        elif verdict is Routing.BAD_REFERENCE:
            self._turn(connection, asked, RefusalCode.BAD_REFERENCE, f"no version {asked.version} was issued")
        elif verdict is Routing.NOT_PRIMARY or housed is None:
            self._turn(connection, asked, RefusalCode.NOT_PRIMARY if housed else RefusalCode.NOT_HERE)
        else:
            self._serve_or_turn(connection, asked, housed)

    async def _look_up(self, connection: Connection, asked: Asked) -> None:
        found = await perform(self._authority, read_view(asked.group))
        if isinstance(found, SeenAt):
            self._directory.learn(found)
        if isinstance(found, SeenAt | NoGroup):
            self._judge(connection, asked, is_looked_up=True)
        else:
            self._turn(connection, asked, RefusalCode.UNAVAILABLE, "the authority does not answer")

    # --- serving

    def _serve_or_turn(self, connection: Connection, asked: Asked, housed: Housed) -> None:
        try:
            self._serve(connection, asked, housed)
        except FutureNotStored as error:
            # Nothing was ordered. In a moment it can be: sent elsewhere it would only come back.
            again = partial(self._judge, connection, asked, is_looked_up=False)
            if not self._groups.stamps.once_stored(again):
                self._turn(connection, asked, RefusalCode.OVERLOADED, str(error))
        except Unavailable as error:
            self._turn(connection, asked, RefusalCode.UNAVAILABLE, str(error))
        except Overloaded as error:
            self._turn(connection, asked, RefusalCode.OVERLOADED, str(error))
        except (InvalidRequest, msgspec.DecodeError) as error:
            self._turn(connection, asked, RefusalCode.INVALID, str(error))
        housed.ask_turn()

    def _serve(self, connection: Connection, asked: Asked, housed: Housed) -> None:
        asker = Asker(connection, housed)
        match asked:
            case Calls(sent=sent) if isinstance(housed.style, Stateless):
                self._groups.answers.answer(asker, *housed.style.execute(_sent.decode(sent)))
            case Calls(sent=sent):
                housed.replica.on_calls(asker, _sent.decode(sent))
            case Settle():
                asker = Asker(connection, housed, asked.number)
                about = (asked.asked_client, asked.asked_number, asked.asked_expiration_s)
                housed.replica.on_outcome_asked(asker, *about)
            case Reads():
                self._read(asker, asked)

    def _read(self, asker: Asker, asked: Reads) -> None:
        """Only the primary knows how old its state is: what it may read now is not old at all (R1)."""
        housed = asker.housed
        if not housed.member.is_serving or not housed.member.may_read():
            raise Unavailable("this member cannot tell how old its state is")
        calls = decode_calls(asked.calls)
        outcomes = [
            housed.replica.on_stale_query(Request(asked.client, each.number), each.method, each.arguments)
            for each in calls
        ]
        self._groups.answers.answer(asker, [each.number for each in calls], outcomes)

    # --- finding groups

    def _locate(self, connection: Connection, asked: Locate) -> None:
        group = asked.group or self._directory.find(asked.name) or GroupId(0)
        housed = self._groups.housed.get(group)
        reference = self._directory.reference(group, None if housed is None else housed.view)
        if reference is not None:
            send(connection, Located(asked.frame, reference, self._groups.stamps.time_ns()))
        else:
            self._start(self._locate_at_authority(connection, asked))

    async def _locate_at_authority(self, connection: Connection, asked: Locate) -> None:
        """A group may be so new that its record is still on its way to this host."""
        by_name = find_group(asked.name) if asked.name else read_group(asked.group)
        record = await perform(self._authority, by_name)
        if isinstance(record, SeenAt):
            view = await perform(self._authority, read_view(record.value.group))
            if isinstance(view, SeenAt):
                reference = self._directory.reference_of(record.value, view.value)
                send(connection, Located(asked.frame, reference, self._groups.stamps.time_ns()))
                return
        is_known = isinstance(record, NoSuchName | NoGroup)
        code = RefusalCode.NO_SUCH_GROUP if is_known else RefusalCode.UNAVAILABLE
        what = repr(asked.name) if asked.name else str(asked.group)
        text = f"there is no group {what}" if is_known else "the authority does not answer"
        send(connection, Turned(asked.frame, GroupId(0), code, text[:TEXT_MAX]))

    def _turn(self, connection: Connection, asked: Asked, code: RefusalCode, text: str = "") -> None:
        send(connection, Turned(asked.frame, asked.group, code, text[:TEXT_MAX]))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done))


def send(connection: Connection, message: ToClient) -> None:
    try:
        connection.send(Kind.CALL_ANSWER, encode_message(message))
    except HoldfastError as error:
        # An outcome longer than the client takes cannot be told, and its call would wait for ever.
        log.warning("an answer cannot be sent", peer=str(connection.peer), why=str(error))
        connection.close(Reason(Why.INTERNAL, str(error)))


def _frames(outcomes: list[bytes]) -> Iterator[tuple[int, int]]:
    """Where to cut *outcomes* so that no frame is too long."""
    first, size = 0, 0
    for index, outcome in enumerate(outcomes):
        if index > first and (
            size + len(outcome) > REPLY_BYTES_MAX or index - first == REPLIES_PER_FRAME_MAX
        ):
            yield first, index
            first, size = index, 0
        size += len(outcome)
    yield first, len(outcomes)
