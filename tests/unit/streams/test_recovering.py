"""Getting messages back: one place at a time, with growing pauses, and an end (LOSS-94 to 96)."""

from dataclasses import dataclass, field

from stream_group import ORIGIN, message

from holdfast.model.ids import MILLISECOND, HostId
from holdfast.sequence.peer_messages import Peer
from holdfast.streams.config import StreamSettings
from holdfast.streams.holding import Holding
from holdfast.streams.message import Origin
from holdfast.streams.peers import Peers, Wanted, decode_told
from holdfast.streams.ports import EXPIRED
from holdfast.streams.recovering import Places, Progress, RecoveryJob


@dataclass
class Ports:
    """What a member has of its peers."""

    told: list[tuple[str, Wanted]] = field(default_factory=list)
    heard: str = "bc"

    def peers(self) -> tuple[Peer, ...]:
        return tuple(Peer(HostId(name), True, name in self.heard) for name in "bc")

    def tell(self, host: HostId, body: bytes) -> bool:
        told = decode_told(body)
        assert isinstance(told, Wanted)
        self.told.append((host, told))
        return True


@dataclass
class Store:
    asked: list[tuple[int, int]] = field(default_factory=list)
    is_there: bool = True

    def request(self, origin: Origin, first: int, last: int) -> bool:
        self.asked.append((first, last))
        return self.is_there


def job(store: Store | None = None, attempts: int = 2) -> tuple[RecoveryJob, Ports]:
    ports = Ports()
    settings = StreamSettings(retry_ms=10)
    holding = Holding(100, 1 << 20)
    holding.held(ORIGIN)
    places = Places(settings, holding, Peers(ports), source=store)  # type: ignore[arg-type]
    return RecoveryJob(ORIGIN, 4, 9, places, 0, 1000 * MILLISECOND, attempts), ports


def give(made: RecoveryJob, place: str, *numbers: int) -> None:
    held = made.places.holding.held(ORIGIN)
    assert held is not None
    messages = tuple(message(number) for number in numbers)
    for each in messages:
        made.places.holding.take(held, each, 1)
    made.on_given(place, messages)


def test_one_place_is_asked_at_a_time_and_the_next_when_it_has_answered() -> None:
    made, ports = job()
    assert made.step(0) is Progress.RUNNING
    assert made.step(5 * MILLISECOND) is Progress.RUNNING
    assert [host for host, _ in ports.told] == ["b"]
    give(made, "b", 4, 5, 6)
    made.step(6 * MILLISECOND)  # it may have more
    assert [(host, each.first, each.last) for host, each in ports.told[1:]] == [("b", 7, 9)]
    give(made, "b")
    made.step(7 * MILLISECOND)
    assert ports.told[-1][0] == "c"
    give(made, "c", 7, 8, 9)
    assert made.step(8 * MILLISECOND) is Progress.DONE
    assert [each.number for each in made.recovered] == [4, 5, 6, 7, 8, 9]


def test_pauses_grow_and_it_ends_with_the_reasons() -> None:
    store = Store()
    made, ports = job(store)
    at, answered = [], 0
    for now in range(0, 400, 1):
        asked = len(ports.told) + len(store.asked)
        progress = made.step(now * MILLISECOND)
        if len(ports.told) + len(store.asked) > asked:
            at.append(now)
        if len(store.asked) > answered:
            answered += 1
            made.on_unavailable("@source", EXPIRED)
        if progress is Progress.FAILED:
            break
    assert progress is Progress.FAILED
    assert at == [0, 10, 20, 21, 41, 61]  # the source answered at once, the others never
    assert made.why == "expired (@source), timeout (b), timeout (c)"
    assert now == 62


def test_it_ends_when_its_time_is_over_or_nobody_is_there() -> None:
    made, ports = job(attempts=100)
    made.step(0)
    assert made.step(1000 * MILLISECOND) is Progress.FAILED
    made, ports = job()
    ports.heard = ""
    assert made.step(0) is Progress.FAILED
    assert made.why == "peer_gone (nobody)"
    made, ports = job(Store(is_there=False))
    ports.heard = ""
    assert made.step(0) is Progress.FAILED
    assert made.why == "refused (@source)"
