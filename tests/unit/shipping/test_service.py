"""Files over loopback TCP, from real files to real files."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
import uvloop
from net_world import LOOPBACK, SECRET
from shipped_files import manifest_of, pattern

from holdfast.model.errors import DiskFailed, HoldfastError, InvalidRequest, Overloaded, Unavailable
from holdfast.model.ids import Epoch, HostId, Position
from holdfast.model.ports import NoTrace
from holdfast.net import (
    Address,
    ConnectionSettings,
    Kind,
    NotConnected,
    PeerIdentity,
    Role,
    Server,
    connect,
    serve,
)
from holdfast.shipping import service
from holdfast.shipping.fetch import ShippingConfig
from holdfast.shipping.manifest import Contents, describe
from holdfast.shipping.messages import Ask, encode_message
from holdfast.shipping.progress import Phase
from holdfast.shipping.service import SHIPPING_ADMITS, Fetcher, OfferServer
from holdfast.shipping.shelf import PART, file_name
from holdfast.storage.disk import Directory

CHUNK = 16 << 10
FILES = {"data.db": pattern(60 * CHUNK + 9), "empty": b"", "sub/part/1": pattern(5 * CHUNK, salt=2)}
CONFIG = ShippingConfig(window_bytes=8 * CHUNK)
A, C = HostId("a"), HostId("c")


def settings(host: str) -> ConnectionSettings:
    return ConnectionSettings(PeerIdentity("test", Role.HOST, host, 1), credentials=SECRET)


def written(directory: Path, files: dict[str, bytes]) -> Contents:
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    return describe(
        Directory(directory),
        sorted(files),
        subject="files",
        epoch=Epoch(1),
        position=Position(1),
        chunk_bytes=CHUNK,
    )


@dataclass
class Net:
    """Where the sources listen; restarted ones listen elsewhere."""

    tmp: Path
    addresses: dict[HostId, Address] = field(default_factory=dict)
    failures: list[HoldfastError] = field(default_factory=list)

    @asynccontextmanager
    async def source(self, contents: Contents, *, bytes_per_s: int = 1 << 30) -> AsyncIterator[OfferServer]:
        offers = OfferServer(NoTrace(), bytes_per_s=bytes_per_s)
        offers.offer(contents, self.tmp / "source")
        server: Server = await serve(LOOPBACK, lambda _: offers, settings(A), admits=SHIPPING_ADMITS)
        self.addresses[A] = server.address
        try:
            yield offers
        finally:
            offers.close()
            await server.close()

    @asynccontextmanager
    async def fetcher(
        self, config: ShippingConfig = CONFIG, *, free_bytes_min: int = 0
    ) -> AsyncIterator[Fetcher]:
        fetcher = Fetcher(
            self.tmp / "shelf",
            settings(C),
            self.addresses.get,
            NoTrace(),
            self.failures.append,
            random=Random(1),
            config=config,
            free_bytes_min=free_bytes_min,
        )
        try:
            await fetcher.open()
            yield fetcher
        finally:
            await fetcher.close()


@pytest.fixture
def net(tmp_path: Path) -> Net:
    return Net(tmp_path)


def assert_whole(net: Net, contents: Contents) -> None:
    for file in contents.files:
        assert (net.tmp / "shelf" / file_name(file)).read_bytes() == FILES[file.name]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.001)


def test_files_arrive_whole(net: Net) -> None:
    contents = written(net.tmp / "source", FILES)

    async def main() -> None:
        async with net.source(contents) as offers, net.fetcher() as fetcher:
            progress = await fetcher.fetch(contents, [A])
            assert fetcher.shelf.holds(contents.id)
            assert (progress.phase, progress.received) == (Phase.DONE, contents.bytes)
            assert offers.bytes_sent == contents.bytes
            assert offers.unasked_s(contents.id) < 60
            assert fetcher.progress is None
            assert not (await fetcher.fetch(contents, [A])).received, "it is here"
        async with net.fetcher() as again:
            assert again.shelf.complete() == [contents.id]

    uvloop.run(main())
    assert_whole(net, contents)


def test_both_ends_may_be_restarted(net: Net) -> None:
    """The fetch goes on, and nothing that was here is sent again (W6)."""
    contents = written(net.tmp / "source", FILES)
    rate = contents.bytes * 4

    async def main() -> None:
        sent = 0
        async with net.fetcher() as fetcher:
            fetching = asyncio.ensure_future(fetcher.fetch(contents, [A]))
            for _ in range(2):
                async with net.source(contents, bytes_per_s=rate) as offers:
                    await until(lambda: offers.bytes_sent > contents.bytes // 4)
                sent += offers.bytes_sent
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)
        async with net.source(contents) as offers, net.fetcher() as fetcher:
            progress = await fetcher.fetch(contents, [A])
            assert progress.found > contents.bytes // 4
        assert sent + offers.bytes_sent <= contents.bytes + 3 * CONFIG.window_bytes

    uvloop.run(main())
    assert_whole(net, contents)


def test_a_flipped_byte_is_found_and_mended(net: Net) -> None:
    contents = written(net.tmp / "source", FILES)

    async def main() -> None:
        async with net.source(contents), net.fetcher() as fetcher:
            await fetcher.fetch(contents, [A])
            shelved = net.tmp / "shelf" / file_name(contents.files[0])
            data = bytearray(shelved.read_bytes())
            data[20 * CHUNK + 3] ^= 16
            shelved.write_bytes(data)
            progress = await fetcher.fetch(contents, [A])
            assert (progress.damaged, progress.received) == (1, CHUNK)
            assert f"data.db at byte {20 * CHUNK}" in progress.damage
            assert fetcher.shelf.holds(contents.id)

    uvloop.run(main())
    assert_whole(net, contents)


def test_fetches_take_turns(net: Net) -> None:
    """And a host may be asked for several things at once."""
    contents = written(net.tmp / "source", FILES)
    other = written(
        net.tmp / "source", {"other": pattern(9 * CHUNK, salt=5), "sub/part/1": FILES["sub/part/1"]}
    )

    async def main() -> None:
        async with net.source(contents) as offers, net.fetcher() as fetcher:
            offers.offer(other, net.tmp / "source")
            first, second = await asyncio.gather(fetcher.fetch(contents, [A]), fetcher.fetch(other, [A]))
            assert first.received + second.received == contents.bytes + 9 * CHUNK
            assert fetcher.shelf.complete() == [contents.id, other.id]

    uvloop.run(main())


def test_too_many_fetches_are_refused(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = written(net.tmp / "source", FILES)
    monkeypatch.setattr(service, "WAITING_MAX", 2)

    async def main() -> None:
        async with net.source(contents), net.fetcher() as fetcher:
            fetches = [asyncio.ensure_future(fetcher.fetch(contents, [A])) for _ in range(3)]
            ended = await asyncio.gather(*fetches, return_exceptions=True)
            assert [isinstance(each, Overloaded) for each in ended] == [False, False, True]
            await fetcher.fetch(contents, [A])

    uvloop.run(main())


def test_settings_out_of_range_are_all_named(net: Net) -> None:
    wrong = ShippingConfig(bytes_per_s=0, attempts_max=0, pause_first_ns=2, pause_most_ns=1)

    async def main() -> None:
        with pytest.raises(InvalidRequest, match=r"bytes_per_s must.*attempts_max must.*pause_first_ns must"):
            async with net.fetcher(wrong):
                pass
        assert not (net.tmp / "shelf").exists()

    uvloop.run(main())


def test_a_source_that_is_not_there_is_said(net: Net) -> None:
    contents = manifest_of(FILES)
    config = ShippingConfig(attempts_max=2, pause_first_ns=1_000_000)

    async def main() -> None:
        async with net.fetcher(config) as fetcher:
            with pytest.raises(Unavailable, match="no source gives what is lacking"):
                await fetcher.fetch(contents, [A])

    uvloop.run(main())


def test_too_little_room_is_said_before_anything_is_written(net: Net) -> None:
    contents = manifest_of(FILES)

    async def main() -> None:
        async with net.fetcher(free_bytes_min=1 << 60) as fetcher:
            with pytest.raises(Unavailable, match=f"needs {contents.bytes} bytes"):
                await fetcher.fetch(contents, [A])
            assert list((net.tmp / "shelf").iterdir()) == []

    uvloop.run(main())


def test_a_disk_that_fails_ends_all_fetching(net: Net) -> None:
    """The owner is told, and nothing is tried again (D1)."""
    contents = written(net.tmp / "source", FILES)

    async def main() -> None:
        async with net.source(contents, bytes_per_s=contents.bytes * 4) as offers, net.fetcher() as fetcher:
            fetching = asyncio.ensure_future(fetcher.fetch(contents, [A]))
            await until(lambda: offers.bytes_sent > contents.bytes // 4)
            for part in (net.tmp / "shelf").glob(f"*{PART}"):
                part.unlink()
            with pytest.raises(DiskFailed):
                await fetching
            with pytest.raises(DiskFailed):
                await fetcher.fetch(contents, [A])
        assert len(net.failures) == 1

    uvloop.run(main())


def test_closing_ends_a_fetch(net: Net) -> None:
    contents = written(net.tmp / "source", FILES)

    async def main() -> None:
        async with net.source(contents, bytes_per_s=contents.bytes) as offers:
            async with net.fetcher() as fetcher:
                fetching = asyncio.ensure_future(fetcher.fetch(contents, [A]))
                await until(lambda: offers.bytes_sent > 0)
                assert fetcher.progress is not None
                assert fetcher.progress[0].id == contents.id
            with pytest.raises(Unavailable, match="closing"):
                await fetching

    uvloop.run(main())


def test_only_hosts_may_ask(net: Net) -> None:
    """Files hold all that groups hold."""
    contents = written(net.tmp / "source", FILES)

    async def main() -> None:
        async with net.source(contents) as offers:
            client = ConnectionSettings(PeerIdentity("test", Role.CLIENT, "x", 1), credentials=SECRET)
            with pytest.raises(NotConnected, match="role client is not admitted"):
                await connect(net.addresses[A], lambda _: offers, client)

    uvloop.run(main())


def test_bad_questions_end_the_connection(net: Net) -> None:
    contents = written(net.tmp / "source", FILES)

    async def main() -> None:
        async with net.source(contents) as offers:
            for payload in (
                b"\xc1",
                encode_message([2, contents.id, 0, b""]),
                encode_message(Ask(b"short", 0)),
            ):
                connection = await connect(net.addresses[A], lambda _: offers, settings(C))
                connection.send(Kind.SHIPPING_ASK, payload)
                async with asyncio.timeout(60):
                    await connection.wait_gone()
                assert "malformed" in str(connection.reason)
            assert offers.bytes_sent == 0

    uvloop.run(main())
