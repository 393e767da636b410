"""A state that stands on files counts when they are here; which groups may have such an object."""

from collections.abc import Callable

import msgspec
import pytest

from holdfast.authority.groups import DISK, MEMORY, GroupRecord
from holdfast.groups.stored_objects import FilesReceiver, check_may_be_stored
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import GroupId, Nonce, Position
from holdfast.sequence.ports import Captured, Kept

OF_FILES = b"\x9b\x03 a state of files"
WHOLE = b"\x9b\x01 an ordinary state"

Ended = Callable[[HoldfastError | None], None]


class Receiving:
    """A state that is received into memory."""

    unsynced_bytes = 0

    def __init__(self) -> None:
        self.state = b""
        self.is_abandoned = False

    def write(self, data: bytes) -> None:
        self.state += data

    def finish(self, then: Callable[[Kept], None], failed: Callable[[], None]) -> None:
        then(Captured(Position(5), self.state))

    def abandon(self) -> None:
        self.is_abandoned = True


class Story:
    """A state that is received, and what became of it."""

    def __init__(self, *pieces: bytes) -> None:
        self.received = Receiving()
        self.fetching: list[tuple[bytes, Ended]] = []
        self.counts: list[Kept] = []
        self.failures = 0
        receiver = FilesReceiver(self.received, lambda state, then: self.fetching.append((state, then)))
        for piece in pieces:
            receiver.write(piece)
        receiver.finish(self.counts.append, self._failed)

    def _failed(self) -> None:
        self.failures += 1


def test_a_state_of_files_counts_after_they_were_fetched() -> None:
    """W8. Whoever counts it before has a manifest, and perhaps never what it names."""
    story = Story(OF_FILES[:5], OF_FILES[5:])
    ((state, then),) = story.fetching
    assert (state, story.counts) == (OF_FILES, [])
    then(None)
    assert [kept.position for kept in story.counts] == [5]
    assert story.received.state == OF_FILES


def test_a_state_whose_files_do_not_come_is_given_up_and_the_next_offer_taken() -> None:
    story = Story(OF_FILES)
    story.fetching[0][1](Unavailable("nobody offers it"))
    assert (story.counts, story.failures, story.received.is_abandoned) == ([], 1, True)


def test_an_ordinary_state_stands_on_nothing() -> None:
    story = Story(WHOLE)
    assert (len(story.counts), story.fetching) == (1, [])


@pytest.mark.parametrize(
    ("style", "durability"), [("warm_passive", DISK), ("cold_passive", DISK), ("active", MEMORY)]
)
def test_a_database_that_could_not_be_taken_back_or_would_not_survive_is_refused(
    style: str, durability: str
) -> None:
    record = GroupRecord(
        group=GroupId(1),
        class_name="archive:Archive",
        style="active",
        members=(),
        nonce=Nonce("n"),
        min_in_sync=1,
        durability=DISK,
    )
    check_may_be_stored(record)
    with pytest.raises(InvalidRequest, match="active, with durability disk"):
        check_may_be_stored(msgspec.structs.replace(record, style=style, durability=durability))
