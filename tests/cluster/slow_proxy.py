"""A TCP proxy on loopback that can hold back what a client sends, or drop the answers."""

import asyncio
import contextlib


class SlowProxy:
    """Forwards to one target. What it holds back is kept even if the client gives up."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._swallows = False
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Start the proxy and return the port it listens on."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def hold(self) -> None:
        """Hold back everything that clients send from now on."""
        self._is_open.clear()

    def release(self) -> None:
        """Deliver what was held back, though its senders may be gone."""
        self._is_open.set()

    def swallow_answers(self) -> None:
        """From now on let requests through, and drop the answers."""
        self._swallows = True

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._target)
        answers = asyncio.ensure_future(self._carry_answers(upstream_reader, writer))
        try:
            while data := await reader.read(65_536):
                await self._is_open.wait()
                upstream_writer.write(data)
            await answers
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            answers.cancel()
            self._tasks.discard(task)
            upstream_writer.close()
            writer.close()

    async def _carry_answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward answers until the target closes; it does not matter if a client has gone."""
        while data := await reader.read(65_536):
            if not self._swallows:
                with contextlib.suppress(ConnectionError):
                    writer.write(data)
