"""The gateway to etcd while etcd is slow, ends its watches, or one of its addresses is no etcd."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.authority.contract import Applied, Events, Get, LeaseGranted, LeaseId, LeaseKeep, Put, Txn
from holdfast.authority.etcd.backend import EtcdAuthority
from holdfast.authority.etcd.gateway import CALLS_MAX, NEAREST_EVERY_S, RETURN_EVERY_S, Deadlines
from holdfast.model.ids import Revision

SEAT = base64.b64encode(b"holdfast/authority/seat")
OK = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
ASKED_FOR_SEAT = 3
"""How often a request names the seat that compares it, asks for it, and else also asks for it."""


class SlowEtcd:
    """Answers lease requests at once, and whether the domain is still here, and nothing else."""

    def __init__(self) -> None:
        self.asked = 0
        self.serving: list[asyncio.Task[None]] = []

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/v3/lease/keepalive" in head:
            body = b'{"result":{"ID":"7","TTL":"6"}}'
            writer.write(
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
            )
        elif (await reader.readuntil(b"}]}")).count(SEAT) == ASKED_FOR_SEAT:
            body = b'{"header":{},"succeeded":true,"responses":[{"response_range":{"header":{}}}]}'
            writer.write(
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
            )
        else:
            self.asked += 1
        await reader.read()  # until the client hangs up
        writer.close()
        await writer.wait_closed()


def test_a_session_is_kept_while_more_is_asked_than_there_is_room_for() -> None:
    """Otherwise the session of a busy host would end, and other hosts would take its groups."""

    async def work() -> None:
        etcd = SlowEtcd()
        server = await asyncio.start_server(etcd.connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        patiently = Deadlines(call_s=600.0, attempt_s=600.0)
        authority = EtcdAuthority([f"http://127.0.0.1:{port}"], deadlines=patiently)
        asking = [asyncio.create_task(authority.ask(Get(f"key{each}"))) for each in range(2 * CALLS_MAX)]
        async with asyncio.timeout(30):
            while etcd.asked < CALLS_MAX:
                await asyncio.sleep(0.01)
            assert await authority.ask(LeaseKeep(LeaseId(7))) == LeaseGranted(LeaseId(7), 6)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await authority.close()
        server.close()
        await asyncio.gather(*etcd.serving, return_exceptions=True)

    asyncio.run(work())


Answer = Callable[[str, dict[str, Any]], tuple[int, str]]
"""Maps a path and a body to a status and a body."""


@asynccontextmanager
async def etcd_that(answer: Answer, *, after_s: float = 0.0, port: int = 0) -> AsyncIterator[str]:
    """Run a server that gives *answer* once per connection, and yield its address. With *after_s*, only the
    last 10 ms of that belong to the way there; the rest is what its reads and changes wait for others."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        sized = head.lower().split(b"content-length: ")[1:]
        content = await reader.readexactly(int(sized[0].split(b"\r\n")[0])) if sized else b"{}"
        path = head.split(b" ")[1].decode()
        await asyncio.sleep(min(after_s, 0.01) if path == "/version" else after_s)
        status, body = answer(path, json.loads(content))
        writer.write(f"HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def test_an_endpoint_without_a_gateway_is_passed_over_while_another_has_one() -> None:
    """Otherwise a host would end when the endpoint before it in the list dies, although etcd serves."""

    async def work() -> None:
        deaf = etcd_that(lambda path, body: (404, "404 page not found\n"))
        sound = etcd_that(lambda path, body: (200, '{"header":{"revision":"7"},"succeeded":true}'))
        async with asyncio.timeout(30), deaf as one, sound as other:
            authority = EtcdAuthority([one, other], deadlines=Deadlines(call_s=30.0, attempt_s=30.0))
            assert await authority.ask(Txn((), (Put("a", b"1"),))) == Applied(Revision(7))
            await authority.close()

    asyncio.run(work())


def test_a_watch_that_etcd_cancels_goes_on_where_it_stopped() -> None:
    """The cancellation names the newest revision, but nothing before it was delivered."""
    starts: list[str] = []

    def answer(path: str, body: dict[str, Any]) -> tuple[int, str]:
        if path != "/v3/watch":
            return 200, '{"header":{"revision":"9"}}'
        starts.append(body["create_request"]["start_revision"])
        if len(starts) == 1:
            return 200, '{"result":{"header":{"revision":"9"},"canceled":true,"cancel_reason":"so"}}\n'
        event = '{"kv":{"key":"aG9sZGZhc3QvYQ==","mod_revision":"5","create_revision":"5"}}'
        return 200, f'{{"result":{{"header":{{"revision":"9"}},"events":[{event}]}}}}\n'

    async def work() -> None:
        async with asyncio.timeout(30), etcd_that(answer) as endpoint:
            authority = EtcdAuthority([endpoint], deadlines=Deadlines(call_s=30.0, attempt_s=30.0))
            watch = authority.watch("a", Revision(4))
            event = await anext(watch)
            assert isinstance(event, Events)
            assert event.revision == 5
            await watch.aclose()  # type: ignore[attr-defined]  # it is a generator
            await authority.close()

    asyncio.run(work())
    assert [int(each) for each in starts] == [4, 4]


def test_requests_go_to_the_endpoint_that_answers_soonest() -> None:
    """Every message between machines that a claim waits for is a part of the failover that callers notice."""
    changed: list[str] = []

    def noting(name: str) -> Answer:
        def answer(path: str, body: dict[str, Any]) -> tuple[int, str]:
            if path == "/v3/kv/txn":
                changed.append(name)
            return 200, '{"header":{"revision":"7"},"succeeded":true}'

        return answer

    async def work() -> None:
        slow, quick = etcd_that(noting("far"), after_s=0.2), etcd_that(noting("near"))
        async with asyncio.timeout(30), slow as one, quick as other:
            authority = EtcdAuthority([one, other], deadlines=Deadlines(call_s=30.0, attempt_s=30.0))
            while "near" not in changed:
                assert await authority.ask(Txn((), (Put("a", b"1"),))) == Applied(Revision(7))
            await authority.ask(Txn((), (Put("a", b"1"),)))
            await authority.close()

    asyncio.run(work())
    assert changed[0] == "far"
    assert changed[-2:] == ["near", "near"]


def test_of_two_endpoints_that_are_as_near_the_one_whose_changes_take_less_is_asked() -> None:
    """That is the leader: a follower would ask it first."""
    changed: list[str] = []

    def noting(name: str) -> Answer:
        def answer(path: str, body: dict[str, Any]) -> tuple[int, str]:
            if path == "/v3/kv/txn":
                changed.append(name)
            return 200, '{"header":{"revision":"7"},"succeeded":true}'

        return answer

    async def work() -> None:
        follows, leads = etcd_that(noting("follows"), after_s=0.08), etcd_that(noting("leads"), after_s=0.02)
        async with asyncio.timeout(30), follows as one, leads as other:
            authority = EtcdAuthority([one, other], deadlines=Deadlines(call_s=30.0, attempt_s=30.0))
            while "leads" not in changed:
                assert await authority.ask(Txn((), (Put("a", b"1"),))) == Applied(Revision(7))
            await authority.close()

    asyncio.run(work())
    assert changed[0] == "follows"


def test_an_endpoint_that_was_down_is_returned_to_soon() -> None:
    """As after a restart of the etcd on the same machine: each claim in between takes a round trip more."""
    changed: list[str] = []

    def noting(name: str) -> Answer:
        def answer(path: str, body: dict[str, Any]) -> tuple[int, str]:
            if path == "/v3/kv/txn":
                changed.append(name)
            return 200, '{"header":{"revision":"7"},"succeeded":true}'

        return answer

    async def work() -> None:
        async with asyncio.timeout(30), etcd_that(noting("far"), after_s=0.05) as far:
            async with etcd_that(noting("near")) as near:
                pass
            authority = EtcdAuthority([near, far], deadlines=Deadlines(call_s=30.0, attempt_s=30.0))

            async def change() -> None:
                assert await authority.ask(Txn((), (Put("a", b"1"),))) == Applied(Revision(7))

            until = asyncio.get_running_loop().time() + 4 * RETURN_EVERY_S
            while asyncio.get_running_loop().time() < until:
                await change()
            assert set(changed) == {"far"}
            async with etcd_that(noting("near"), port=int(near.rpartition(":")[2])):
                began = asyncio.get_running_loop().time()
                while changed[-1] != "near":
                    await change()
                assert asyncio.get_running_loop().time() - began < NEAREST_EVERY_S / 2
                await authority.close()

    asyncio.run(work())


def test_an_endpoint_that_was_cut_off_is_returned_to_when_it_serves_again() -> None:
    """Cut off from the other members it still answers soonest what it needs them not for. Until it serves,
    nothing is asked there but whether it does; after that, no claim takes the longer way for long."""
    changed: list[str] = []
    probed: list[str] = []
    cut_off = {"near"}

    def noting(name: str) -> Answer:
        def answer(path: str, body: dict[str, Any]) -> tuple[int, str]:
            if path == "/v3/kv/txn":
                changed.append(name)
            if path == "/v3/kv/range" and name == "near":
                probed.append(name)
            if name in cut_off and path != "/version":
                return 503, '{"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14}'
            return 200, '{"header":{"revision":"7"},"succeeded":true}'

        return answer

    async def work() -> None:
        slow, quick = etcd_that(noting("far"), after_s=0.05), etcd_that(noting("near"))
        async with asyncio.timeout(30), slow as one, quick as other:
            authority = EtcdAuthority([other, one], deadlines=Deadlines(call_s=30.0, attempt_s=30.0))

            async def change() -> None:
                assert await authority.ask(Txn((), (Put("a", b"1"),))) == Applied(Revision(7))

            while len(probed) < 3:
                await change()
            assert changed[:2] == ["near", "far"]
            assert set(changed[1:]) == {"far"}
            cut_off.clear()
            began = asyncio.get_running_loop().time()
            while changed[-1] != "near":
                await change()
            # It is looked for every half second, and not only with the next round of all endpoints.
            assert asyncio.get_running_loop().time() - began < NEAREST_EVERY_S
            await authority.close()

    asyncio.run(work())
