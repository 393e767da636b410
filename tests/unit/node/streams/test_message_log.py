"""A host's message log: files that hosts may share, and the thread that nobody waits for."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from stream_group import ORIGIN, message

from holdfast.model.errors import InvalidRequest
from holdfast.node.streams import message_log
from holdfast.node.streams.config import StreamsConfig
from holdfast.node.streams.log_files import ENDING, FILES, LogFiles
from holdfast.node.streams.message_log import HostMessageLog, opened_log
from holdfast.streams.datagram import Batch, From, decode, encode_batch
from holdfast.streams.message import Message, Origin

OTHER = Origin("mine", "silver", 1)
BYTES = 1 << 20


def packed(first: int, count: int) -> Sequence[Message]:
    """Messages as a datagram has them."""
    found = decode(
        encode_batch(From(0, 7, 1), [message(first + each) for each in range(count)], None),
        lambda _: None,
        is_open=True,
    )
    assert isinstance(found, Batch)
    return found.messages


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., LogFiles]]:
    """Opens logs of hosts in one directory, and closes them."""
    made: list[LogFiles] = []

    def opening(host: str, bytes_max: int = BYTES) -> LogFiles:
        made.append(LogFiles(tmp_path / "log", host, bytes_max))
        return made[-1]

    yield opening
    for each in made:
        each.close()


def numbers(found: Sequence[Message]) -> list[int]:
    return [each.number for each in found]


@pytest.mark.covers("LOSS-14")
def test_what_one_host_has_recorded_another_reads(opened: Callable[..., LogFiles]) -> None:
    one, other = opened("host-1"), opened("host-2")
    one.record(ORIGIN, packed(1, 20))
    one.record(OTHER, [message(3)])
    other.record(ORIGIN, [message(21), message(22), message(25)])
    assert numbers(other.read(ORIGIN, 15, 30)) == [*range(15, 23), 25]
    one.record(ORIGIN, [message(23)])
    assert numbers(other.read(ORIGIN, 22, 24)) == [22, 23]
    assert other.read(ORIGIN, 2, 2) == [message(2)]
    assert other.read(Origin("exchange", "gold", 2), 1, 100) == []


def test_a_host_that_starts_again_reads_what_it_had_and_leaves_out_what_is_torn(
    opened: Callable[..., LogFiles], tmp_path: Path
) -> None:
    made = opened("h")
    made.record(ORIGIN, [message(1)])
    made.record(ORIGIN, [message(2)])
    made.close()
    (file,) = (tmp_path / "log").iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    again = opened("h")
    again.record(ORIGIN, [message(3)])
    assert numbers(again.read(ORIGIN, 1, 9)) == [1, 3]
    assert len(list((tmp_path / "log").iterdir())) == 2
    (tmp_path / "log" / f"x-00000001{ENDING}").write_bytes(b"\x00\x00\x00\x04rubbish")
    assert numbers(again.read(ORIGIN, 1, 9)) == [1, 3]


def test_the_oldest_go(opened: Callable[..., LogFiles], tmp_path: Path) -> None:
    made, reader = opened("h", 20_000), opened("r", 20_000)
    for number in range(1, 2_000):
        made.record(ORIGIN, [message(number)])
        if number % 100 == 0:
            assert numbers(reader.read(ORIGIN, number - 20, number)) == list(range(number - 20, number + 1))
    assert len(list((tmp_path / "log").iterdir())) <= FILES
    assert sum(each.stat().st_size for each in (tmp_path / "log").iterdir()) < 24_000
    assert reader.read(ORIGIN, 1, 100) == []


class Kept:
    """A log as somebody may write one."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.messages: list[Message] = []
        self.fails = False
        self.is_closed = False

    def record(self, origin: Origin, messages: Sequence[Message]) -> None:
        if self.fails:
            raise OSError("the disk is full")
        self.messages += messages

    def read(self, origin: Origin, first: int, last: int) -> Sequence[Message]:
        if self.fails:
            raise OSError("the disk is gone")
        return [each for each in self.messages if first <= each.number <= last]

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.covers("LOSS-14")
def test_a_log_of_ones_own_is_asked_beside_the_loop_and_may_fail() -> None:
    async def work() -> None:
        kept = Kept("h")
        made = HostMessageLog(kept)
        answers: asyncio.Queue[tuple[object, ...]] = asyncio.Queue()

        def given(origin: Origin, found: Sequence[Message]) -> None:
            answers.put_nowait((origin, numbers(found)))

        def unavailable(*said: object) -> None:
            answers.put_nowait(said)

        async def asked(first: int, last: int) -> tuple[object, ...]:
            assert made.request(ORIGIN, first, last, given, unavailable)
            async with asyncio.timeout(10):
                return await answers.get()

        made.record(ORIGIN, packed(1, 10))
        assert await asked(9, 12) == (ORIGIN, [9, 10])
        assert await asked(11, 12) == (ORIGIN, 11, 12, "not_stored")
        kept.fails = True
        made.record(ORIGIN, [message(11)])
        assert await asked(1, 2) == (ORIGIN, 1, 2, "refused")
        assert made.unrecorded("gold") == 1
        await made.close()
        assert kept.is_closed

    asyncio.run(work())


def test_what_comes_too_fast_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(message_log, "WAITING_BYTES_MAX", 1_000)
        made = HostMessageLog(Kept("h"))
        await made.close()  # nobody takes anything out any more
        for number in range(1, 11):
            made.record(ORIGIN, [message(number)])
        assert made.unrecorded("gold") == 6

    asyncio.run(work())


def test_which_log_the_settings_ask_for(tmp_path: Path) -> None:
    async def work() -> None:
        assert opened_log(StreamsConfig(), "h") is None
        for name in (str(tmp_path / "log"), f"{__name__}:Kept"):
            found = opened_log(StreamsConfig(message_log=name), "h")
            assert found is not None
            await found.close()
        with pytest.raises(InvalidRequest, match="nowhere"):
            opened_log(StreamsConfig(message_log="nowhere:Log"), "h")

    asyncio.run(work())
    assert StreamsConfig(message_log="relative/path").validate()
    assert StreamsConfig(message_log="/x", message_log_bytes=1).validate()
    assert not StreamsConfig(message_log="/x").validate()
