"""What a host takes of the datagrams of sources, what it refuses, and what it answers."""

from collections.abc import Hashable
from random import Random

import pytest

from holdfast.model.ids import MILLISECOND, SECOND, GroupId
from holdfast.streams.datagram import (
    Batch,
    Beat,
    Credit,
    Datagram,
    From,
    Notice,
    Refusal,
    Request,
    decode,
    encode,
)
from holdfast.streams.encoding import EncodingConfig
from holdfast.streams.message import Heartbeat, Message, Origin
from holdfast.streams.pacing import CreditConfig, CreditGiver
from holdfast.streams.reception import Intake, Reception, StreamBinding
from holdfast.streams.sending import SourceConfig, StreamSource

KEY = b"k" * 32
GROUP = GroupId(4)
SENDER = From(1, 7, 3)
ORIGIN = Origin("exchange", "orders", 3)


class Member:
    """A member that notes what it is told, and delivers what it is told to."""

    def __init__(self) -> None:
        self.messages: list[tuple[Origin, int]] = []
        self.heartbeats: list[tuple[Origin, Heartbeat]] = []
        self.unavailable: list[tuple[int, int, str]] = []
        self.answered: list[int] = []
        self.delivered_up_to = 0
        self.latest_life = 0
        self.epoch = 5
        self.leads = True

    def on_messages(self, origin: Origin, messages: list[Message], *, is_answer: bool) -> None:
        self.messages += [(origin, each.number) for each in messages]
        self.answered += [each.number for each in messages if is_answer]

    def on_heartbeat(self, origin: Origin, heartbeat: Heartbeat) -> None:
        self.heartbeats.append((origin, heartbeat))

    def on_unavailable(self, origin: Origin, first: int, last: int, reason: str) -> None:
        self.unavailable.append((first, last, reason))

    def delivered(self, origin: Origin) -> int:
        return self.delivered_up_to

    def latest(self, stream: str) -> int:
        assert stream == "orders"
        return self.latest_life


class World:
    """A host with one group and one stream; also its ports."""

    def __init__(self, **binding: bool) -> None:
        self.time_ns = 0
        self.member: Member | None = Member()
        self.answers: list[tuple[Hashable, Datagram]] = []
        self.reception = Reception(self, CreditConfig(window=100), Random(1))
        self.binding = StreamBinding(
            stream="orders", number=7, group=GROUP, source="anybody", keys={1: ("exchange", KEY)}, **binding
        )
        self.reception.bind([self.binding])

    def now(self) -> int:
        return self.time_ns

    def intake(self, group: GroupId) -> Intake | None:
        assert group == GROUP
        return self.member

    def answer(self, path: Hashable, data: bytes) -> None:
        self.answers.append((path, decode(data, lambda key: KEY, is_open=True)))

    def hear(self, said: Datagram, path: Hashable = "a", key: bytes | None = KEY) -> list[Datagram]:
        """What is answered to it."""
        self.answers = []
        self.reception.on_datagram(path, encode(said, key))
        return [each for _, each in self.answers]

    @property
    def counts(self) -> dict[str, int]:
        found = self.reception.stream("orders")
        assert found is not None
        return dict(found.counts)


def batch(*numbers: int, sender: From = SENDER) -> Batch:
    return Batch(sender, [Message(each, 0, "", b"x") for each in numbers])


def test_messages_reach_the_group() -> None:
    """The key says which source it is, and a heartbeat is answered with credit."""
    world = World()
    assert world.member is not None
    assert world.hear(Beat(SENDER, 0, 1)) == [Credit(SENDER, 0, 100, 5, is_leader=True)]
    assert world.hear(batch(1, 2)) == []
    assert world.member.messages == [(ORIGIN, 1), (ORIGIN, 2)]
    assert world.member.heartbeats == [(ORIGIN, Heartbeat(0))]
    assert world.counts == {"heartbeats": 1, "messages": 2}


def test_without_a_key_only_where_that_is_allowed() -> None:
    unsealed = batch(1, sender=From(0, 7, 3))
    strict, open_ = World(), World(is_open=True)
    strict.hear(unsealed, key=None)
    assert strict.counts == {"unsealed": 1}
    open_.hear(unsealed, key=None)
    assert open_.member is not None
    assert open_.member.messages == [(Origin("anybody", "orders", 3), 1)]


def test_strangers_are_counted_and_not_answered() -> None:
    """Rubbish, streams that nobody has bound, and forged datagrams reach no group and get no answer."""
    world = World()
    world.reception.on_datagram("a", b"rubbish")
    world.reception.on_datagram("a", encode(batch(1, sender=From(1, 8, 3)), KEY))
    world.reception.on_datagram("a", encode(batch(1), b"o" * 32))
    world.reception.on_datagram("a", encode(batch(1, sender=From(9, 7, 3)), KEY))
    world.reception.on_datagram("a", encode(Credit(SENDER, 0, 9, 9, is_leader=True), KEY))
    assert world.reception.refused == {"short": 1, "stream": 1}
    assert world.counts == {"tag": 1, "key": 1, "kind": 1}
    assert world.answers == []
    assert world.member is not None
    assert world.member.messages == []


def test_an_earlier_life_is_over() -> None:
    """A source that was started again is a new one; what an old datagram says counts no more."""
    world = World()
    world.hear(batch(1))
    later = From(1, 7, 4)
    world.hear(batch(1, sender=later))
    assert world.hear(batch(2)) == [Notice(SENDER, 0, Refusal.OLD_INCARNATION)]
    assert world.member is not None
    assert [origin.incarnation for origin, _ in world.member.messages] == [3, 4]


def test_an_earlier_life_is_over_on_a_host_that_was_started_again() -> None:
    """The host has heard no life yet, but the group has: what is swallowed must be refused, too."""
    world = World()
    assert world.member is not None
    world.member.latest_life = 4
    assert world.hear(Beat(SENDER, 1, 1)) == [Notice(SENDER, 0, Refusal.OLD_INCARNATION)]
    assert world.hear(batch(1)) == [Notice(SENDER, 0, Refusal.OLD_INCARNATION)]
    assert world.hear(Beat(From(1, 7, 4), 1, 1)) == [Credit(From(1, 7, 4), 0, 100, 5, is_leader=True)]
    assert world.member.messages == []


def test_a_life_that_is_later_here_and_earlier_to_the_group_is_over() -> None:
    """Others heard the life that followed it while this host was deaf."""
    world = World()
    assert world.member is not None
    world.hear(Beat(From(1, 7, 2), 1, 1))
    world.member.latest_life = 4
    assert world.hear(Beat(SENDER, 1, 1)) == [Notice(SENDER, 0, Refusal.OLD_INCARNATION)]


def test_a_replayed_datagram_is_handed_on_as_it_is() -> None:
    """It says what is known already: the group drops what it has (LOSS-37), and credit never shrinks."""
    world = World()
    first = encode(batch(1, 2), KEY)
    for _ in range(3):
        world.reception.on_datagram("elsewhere", first)
    assert world.member is not None
    assert [number for _, number in world.member.messages] == [1, 2] * 3


def test_a_replay_leads_no_answers_away() -> None:
    """A heartbeat that comes again from elsewhere is answered there; credit and requests go on as before."""
    world = World()
    world.hear(batch(1, 2), path="source")
    assert len(world.hear(Beat(SENDER, 2, 1), path="thief")) == 1
    world.reception.request(ORIGIN, 1, 1)
    assert [path for path, _ in world.answers] == ["thief", "source"]
    world.hear(batch(3), path="source moved")
    world.reception.request(ORIGIN, 1, 1)
    assert world.answers[-1][0] == "source moved"
    world.reception.on_path_gone("source moved")
    assert not world.reception.request(ORIGIN, 1, 1)


def test_beyond_the_credit() -> None:
    """What goes beyond is dropped, and the source is told; a free-running stream is taken as it comes."""
    world = World()
    assert world.hear(batch(99, 100, 101, 102)) == [Notice(SENDER, 102, Refusal.BEYOND_CREDIT)]
    assert world.member is not None
    assert [number for _, number in world.member.messages] == [99, 100]
    world.member.leads = False
    assert world.hear(batch(103)) == []
    world.member.leads = True
    world.member.delivered_up_to = 50
    assert world.hear(batch(101, 102)) == []
    free = World(is_paced=False)
    assert free.hear(batch(5_000)) == []
    assert free.counts == {"messages": 1}


def test_notices_are_few() -> None:
    world = World()
    told = [len(world.hear(batch(500))) for _ in range(100)]
    assert sum(told) == 20
    world.time_ns += 2 * SECOND
    assert len(world.hear(batch(500))) == 1


def test_no_member_here() -> None:
    """A source that still sends to a host that has left the group is told to look again."""
    world = World()
    world.member = None
    assert world.hear(batch(1)) == [Notice(SENDER, 0, Refusal.NOT_HERE)]
    assert world.counts == {"not_here": 1}


def test_credit_is_given_as_the_group_delivers() -> None:
    world = World()
    world.hear(batch(1, 2))
    world.reception.give_credit()
    assert world.member is not None
    world.member.delivered_up_to = 2
    world.answers = []
    world.reception.give_credit()
    assert world.answers == []
    world.time_ns += 60 * MILLISECOND
    world.reception.give_credit()
    assert world.answers == [("a", Credit(SENDER, 2, 102, 5, is_leader=True))]


def test_asking_the_source() -> None:
    """A request goes where the source was heard last; what it has forgotten is said to be gone."""
    world = World()
    assert not world.reception.request(ORIGIN, 1, 2)
    world.hear(Beat(SENDER, 50, 11), path="there")
    world.answers = []
    assert world.reception.request(ORIGIN, 12, 14)
    assert world.answers == [("there", Request(SENDER, ((12, 3),)))]
    assert world.reception.request(ORIGIN, 3, 5)
    assert world.member is not None
    for each in ((11,), (12, 13, 14), (15,)):
        world.hear(batch(*each), path="there")
    assert world.member.answered == [12, 13, 14]
    assert world.member.unavailable == [(3, 5, "expired")]
    assert not world.reception.request(Origin("exchange", "orders", 2), 1, 2)


def test_bindings_change() -> None:
    """A stream that stays is known as before; one that goes is unknown, and one for another group new."""
    world = World()
    world.hear(batch(1))
    world.reception.bind([world.binding])
    assert world.counts == {"messages": 1}
    world.reception.bind([])
    world.reception.on_datagram("a", encode(batch(2), KEY))
    assert world.reception.refused == {"stream": 1}


@pytest.mark.parametrize("part", [0.0, 0.1])
def test_a_source_and_a_host(part: float) -> None:
    """A source and a host's reception, with datagrams lost on purpose: by requests everything arrives."""
    world = World()
    source = StreamSource(SENDER, KEY, EncodingConfig(), SourceConfig())
    found = world.reception.stream("orders")
    assert found is not None
    assert world.member is not None
    found.loss = part
    have: dict[int, None] = {}
    for _ in range(3_000):
        world.time_ns += 20 * MILLISECOND
        source.post_many([b"x" * 100] * min(source.room, 40), now_ns=world.time_ns)
        for data in (*source.take_batches(world.time_ns), source.heartbeat(world.time_ns)):
            world.reception.on_datagram("source", data)
        have |= dict.fromkeys(number for _, number in world.member.messages)
        world.member.messages.clear()
        while world.member.delivered_up_to + 1 in have:
            world.member.delivered_up_to += 1
        lacking = world.member.delivered_up_to + 1
        if lacking <= source.highest:
            world.reception.request(ORIGIN, lacking, source.highest)
        answers, world.answers = world.answers, []
        for _, said in answers:
            for data in source.on_datagram("host", encode(said, KEY), world.time_ns):
                world.reception.on_datagram("source", data)
        if world.member.delivered_up_to > 2_000:
            break
    assert world.member.delivered_up_to > 2_000
    assert (source.repeats > 0) == (part > 0)
    assert source.beyond == 0


def mixed(dice: Random) -> list[tuple[bytes, Hashable]]:
    """What one turn of a socket may have: messages one by one and in batches, heartbeats, repetitions, other
    paths, other lives, forged ones, rubbish."""
    found: list[tuple[bytes, Hashable]] = []
    number = 1
    for _ in range(64):
        sender, key, path = SENDER, KEY, "a"
        match dice.randrange(40):
            case 0:
                found.append((encode(Beat(SENDER, number - 1, 1), KEY), path))
                continue
            case 1:
                found.append((bytes(dice.randrange(256) for _ in range(dice.randrange(80))), path))
                continue
            case 2:
                number = max(1, number - dice.randrange(5))
            case 3:
                number += dice.randrange(40)
            case 4:
                path = "b"
            case 5:
                sender = From(1, 7, dice.choice((2, 4)))
            case 6:
                key = b"o" * 32
        count = dice.choice((1, 1, 1, 1, 1, 1, 5))
        made = [Message(each, 0, "", b"x" * dice.choice((4, 4, 9))) for each in range(number, number + count)]
        found.append((encode(Batch(sender, made), key), path))
        number += count
    return found


def notices(world: World) -> set[tuple[Hashable, Refusal]]:
    return {(path, said.refusal) for path, said in world.answers if isinstance(said, Notice)}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_those_of_one_turn_come_to_the_same_as_each_by_itself(seed: int, loss: float) -> None:
    """The group gets the same messages in the same order, and the same are counted, refused, answered and
    thrown away."""
    together, alone = World(), World()
    received = mixed(Random(seed))
    for world in (together, alone):
        stream = world.reception.stream("orders")
        assert stream is not None
        stream.loss = loss
        stream.origin, stream.sender, stream.path = ORIGIN, SENDER, "a"
        stream.giver = CreditGiver(CreditConfig(window=100), SENDER)
        world.reception.request(ORIGIN, 20, 24)
    together.reception.on_datagrams(received)
    for data, path in received:
        alone.reception.on_datagram(path, data)
    assert together.member is not None
    assert alone.member is not None
    assert together.member.messages == alone.member.messages
    assert together.member.answered == alone.member.answered
    assert together.member.heartbeats == alone.member.heartbeats
    assert together.counts == alone.counts
    assert together.reception.refused == alone.reception.refused
    answers = [
        [each for each in world.answers if not isinstance(each[1], Notice)] for world in (together, alone)
    ]
    assert answers[0] == answers[1]
    # What is joined is refused at once, so the bound on notices leaves room for more kinds.
    assert notices(together) >= notices(alone)


def test_messages_that_come_one_by_one_reach_the_group_at_once() -> None:
    world = World()
    calls: list[list[int]] = []
    assert world.member is not None
    world.member.on_messages = (  # type: ignore[method-assign]
        lambda origin, messages, is_answer: calls.append([each.number for each in messages])
    )
    received = [(encode(batch(number), KEY), "a") for number in range(1, 31)]
    world.reception.on_datagrams(received)
    assert calls == [list(range(1, 31))]
