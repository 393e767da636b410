"""The gateway to etcd while etcd is slow: what must not wait does not."""

import asyncio

from holdfast.authority.contract import Get, LeaseGranted, LeaseId, LeaseKeep
from holdfast.authority.etcd import EtcdAuthority
from holdfast.authority.etcd_gateway import CALLS_MAX, Deadlines


class SlowEtcd:
    """Answers for leases at once, and nothing else."""

    def __init__(self) -> None:
        self.asked = 0
        self.serving: list[asyncio.Task[None]] = []

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/v3/lease/keepalive" in head:
            body = b'{"result":{"ID":"7","TTL":"6"}}'
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        else:
            self.asked += 1
        await reader.read()  # until it is hung up
        writer.close()
        await writer.wait_closed()


def test_a_session_is_kept_while_more_is_asked_than_there_is_room_for() -> None:
    """It would end while its host is merely busy, and others would take its groups."""

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
