"""A full copy: all state arrives, half a copy never counts, and two copies never mix."""

import pytest
from directory_links import Linked, Mesh
from directory_replica import person
from msgspec import structs

from holdfast.clock.vector import Vector
from holdfast.directory.memory_store import MemoryStore, StoreImage
from holdfast.directory.replica.maps import ENTRIES, KEPT, MAPS, REPLICA, UPDATES
from holdfast.directory.replication.giving import Givers
from holdfast.directory.replication.messages import CopyBegins, CopyEnds, CopyPiece, Message
from holdfast.directory.replication.roster import SELF, Own, decoded_own
from holdfast.directory.replication.taking import HALF_COPIED, Phase, Taker, would_lose
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

SUFFIX = "dc=example,dc=com"


class Line:
    """The taker's end of a connection."""

    def __init__(self, giver: Linked) -> None:
        self._giver = giver

    def send(self, message: Message) -> None:
        self._giver.replicator.on_message("new", message)


class Silent:
    """A connection on which nobody answers."""

    def send(self, message: Message) -> None:
        return None


class Filled:
    """A store that is filled."""

    def __init__(self, image: StoreImage | None = None) -> None:
        self.image = image or StoreImage(MAPS)
        self.is_done = False
        self.store = MemoryStore(self.image, lambda token, ok: self.taker.on_committed(token, ok))
        own = Own(replica=ReplicaId(9), is_ready=False, over=(ReplicaId(5),))
        self.taker = Taker(self.store, own, suffix=SUFFIX, maps=MAPS, kept=KEPT, window=2, on_done=self._done)

    def _done(self) -> None:
        self.is_done = True

    def row(self, key: bytes) -> bytes | None:
        return self.image.maps[KEPT].rows.get(key)

    def take(self, giver: Linked, most: int = 1000) -> None:
        """Let the copy go on, for *most* messages."""
        seen = 0
        while seen < most:
            giver.master.store.commit()
            self.store.commit()
            messages = [message for peer, message in giver.wires.sent if peer == "new"]
            if seen >= len(messages) and not self.store.on_its_way:
                return
            for message in messages[seen:most]:
                seen += 1
                self.taker.on_message(message)


@pytest.fixture
def giver() -> Linked:
    mesh = Mesh(1, ())
    mesh[1].master.populate()
    for number in range(12):
        mesh[1].master.do(person(f"p{number}"))
    giver = mesh[1]
    giver.replicator._givers = Givers(
        giver.replicator._ports,
        structs.replace(giver.replicator.config, piece_bytes=2_000),
        MAPS,
        giver.replicator._count,
    )
    return giver


@pytest.mark.covers("CSN-71")
def test_a_copy_has_all_state(giver: Linked) -> None:
    filled = Filled()
    filled.store.commit()
    filled.taker.ask(Line(giver))
    filled.take(giver)
    assert filled.is_done
    for name in (ENTRIES, REPLICA, UPDATES):
        assert filled.image.maps[name].rows == giver.master.image.maps[name].rows
    own = decoded_own(filled.row(SELF) or b"")
    assert own.replica == 9
    assert own.is_ready
    assert own.over == (5,)
    assert {1, 9} <= set(own.known)
    assert Vector.parse(own.base) == giver.replica.vector
    assert filled.row(HALF_COPIED) is None
    assert giver.roster.is_counted(ReplicaId(9)), "it is counted before it is given anything"


def test_half_a_copy_never_counts_and_is_erased(giver: Linked) -> None:
    filled = Filled()
    filled.store.commit()
    filled.taker.ask(Line(giver))
    filled.take(giver, most=4)
    assert filled.row(HALF_COPIED) is not None
    assert not decoded_own(filled.row(SELF) or b"").is_ready
    assert filled.image.maps[ENTRIES].rows
    filled.image.cut(0)
    again = Filled(filled.image)
    for _ in range(5):
        again.store.commit()
    assert again.taker.phase is Phase.ASKING
    assert not again.image.maps[ENTRIES].rows


def test_pieces_of_a_copy_that_was_given_up_are_not_taken(giver: Linked) -> None:
    filled = Filled()
    filled.store.commit()
    filled.taker.ask(Line(giver))
    filled.take(giver, most=3)
    old = next(message for _, message in giver.wires.sent if isinstance(message, CopyPiece))
    filled.taker.ask(Silent())
    for _ in range(5):
        filled.store.commit()
    assert filled.taker.phase is Phase.ASKING
    filled.taker.on_message(CopyBegins("another", "g"))
    filled.taker.on_message(structs.replace(old, number=1))
    filled.store.commit()
    assert not filled.image.maps[ENTRIES].rows


def test_a_copy_that_differs_from_what_was_sent_is_refused(giver: Linked) -> None:
    filled = Filled()
    filled.store.commit()
    filled.taker.ask(Line(giver))
    giver.wires.sent[:] = [
        (peer, structs.replace(message, digest=bytes(32)) if isinstance(message, CopyEnds) else message)
        for peer, message in giver.wires.sent
    ]
    with pytest.raises(InvalidRequest, match="not what was sent"):
        for _ in range(50):
            filled.take(giver)
            giver.wires.sent[:] = [
                (
                    peer,
                    structs.replace(message, digest=bytes(32)) if isinstance(message, CopyEnds) else message,
                )
                for peer, message in giver.wires.sent
            ]
            end = [message for _, message in giver.wires.sent if isinstance(message, CopyEnds)]
            if end:
                filled.taker.phase = Phase.TAKING
                filled.taker.on_message(end[-1])


def test_what_filling_a_store_would_lose_is_known_before() -> None:
    mine = Vector.of("g", [Csn(5, 0, ReplicaId(1)), Csn(9, 0, ReplicaId(2))])
    theirs = Vector.of("g", [Csn(5, 0, ReplicaId(1)), Csn(7, 0, ReplicaId(2))])
    lost = would_lose(mine, theirs)
    assert [(each.replica, each.after, each.up_to) for each in lost] == [
        (ReplicaId(2), Csn(7, 0, ReplicaId(2)), Csn(9, 0, ReplicaId(2)))
    ]
    assert would_lose(theirs, mine) == ()
