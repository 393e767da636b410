"""A host's message log: what its members receive is recorded beside the loop, and read when one of them lacks
something (LOSS-14, LOSS-16).

Nobody waits for it: a message is delivered whether it was recorded or not, and what comes faster than it can
be recorded is left out and counted.
"""

import asyncio
import importlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Full, Queue
from typing import Final

import structlog

from holdfast.model.errors import InvalidRequest
from holdfast.model.outcome import error_in_words
from holdfast.node.streams.config import StreamsConfig, is_plug_in
from holdfast.node.streams.log_files import LogFiles
from holdfast.streams.message import Message, Origin
from holdfast.streams.peers import GIVEN_MAX
from holdfast.streams.ports import NOT_STORED, REFUSED, MessageLog
from holdfast.streams.runs import MESSAGE_BYTES, Run

WAITING_MAX: Final = 4_096
"""The most runs of messages and requests that wait for the log."""
WAITING_BYTES_MAX: Final = 16 << 20
"""About how many bytes the messages have that wait."""
PLACE: Final = "@log"

log: Final = structlog.get_logger("holdfast.streams")

Given = Callable[[Origin, Sequence[Message]], None]
Unavailable = Callable[[Origin, int, int, str], None]
_Wanted = tuple[Origin, int, int, Given, Unavailable]
_Received = tuple[Origin, Sequence[Message]]


def opened_log(config: StreamsConfig, host: str) -> "HostMessageLog | None":
    """The message log that *config* asks for. Raises ``InvalidRequest`` if it cannot be had."""
    name = config.message_log
    if not name:
        return None
    try:
        if not is_plug_in(name):
            return HostMessageLog(LogFiles(Path(name), host, config.message_log_bytes))
        module, _, cls = name.partition(":")
        return HostMessageLog(getattr(importlib.import_module(module), cls)(host))
    except Exception as error:  # of a plug-in that anybody may have written
        raise InvalidRequest(f"no message log {name!r}: {error_in_words(error)}") from None


class HostMessageLog:
    """Runs a message log in a thread of its own."""

    def __init__(self, kept: MessageLog) -> None:
        self._kept = kept
        self._loop = asyncio.get_running_loop()
        self._queue: Queue[_Wanted | _Received | None] = Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._run, name="message-log", daemon=True)
        self._is_failing = False
        self._put_bytes = 0
        """Of all that was ever put into the queue; counted on the loop."""
        self._done_bytes = 0
        """Of all that was taken from it; counted in the thread."""
        self._too_many: Counter[str] = Counter()
        """Messages that were left out, by stream; counted on the loop."""
        self._failed: Counter[str] = Counter()
        """Those that the log did not take; counted in the thread."""
        self._thread.start()

    # --- on the loop

    def record(self, origin: Origin, messages: Sequence[Message]) -> None:
        """Record what was received, if the log keeps up."""
        size = _size(messages)
        try:
            if self._put_bytes - self._done_bytes + size > WAITING_BYTES_MAX:
                raise Full
            self._queue.put_nowait((origin, messages))
            self._put_bytes += size
        except Full:
            self._too_many[origin.stream] += len(messages)

    def request(self, origin: Origin, first: int, last: int, given: Given, unavailable: Unavailable) -> bool:
        """Look for messages; *given* or *unavailable* is called later. Whether the log could be asked."""
        last = min(last, first + GIVEN_MAX - 1)  # what is more is asked for again
        try:
            self._queue.put_nowait((origin, first, last, given, unavailable))
        except Full:
            return False
        return True

    def unrecorded(self, stream: str) -> int:
        """How many messages of a stream were not recorded, because they were too many or the log failed."""
        return self._too_many[stream] + self._failed[stream]

    async def close(self) -> None:
        await asyncio.to_thread(self._queue.put, None)
        await asyncio.to_thread(self._thread.join)

    # --- in the thread

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if len(work) == 2:
                self._record(*work)
            else:
                self._read(*work)
        self._guarded(self._kept.close)

    def _record(self, origin: Origin, messages: Sequence[Message]) -> None:
        if not self._guarded(lambda: self._kept.record(origin, messages)):
            self._failed[origin.stream] += len(messages)
        self._done_bytes += _size(messages)

    def _read(self, origin: Origin, first: int, last: int, given: Given, unavailable: Unavailable) -> None:
        found: list[Message] = []
        reason = NOT_STORED
        if not self._guarded(lambda: found.extend(self._kept.read(origin, first, last))):
            reason = REFUSED
        if found:
            self._loop.call_soon_threadsafe(given, origin, found)
        else:
            self._loop.call_soon_threadsafe(unavailable, origin, first, last, reason)

    def _guarded(self, work: Callable[[], object]) -> bool:
        """Whether *work* was done. What a log raises is told once, until it works again."""
        try:
            work()
        except Exception as error:
            if not self._is_failing:
                log.warning("the message log fails", why=error_in_words(error))
            self._is_failing = True
            return False
        self._is_failing = False
        return True


def _size(messages: Sequence[Message]) -> int:
    if isinstance(messages, Run):
        return messages.held_bytes
    return sum(len(each.payload) + MESSAGE_BYTES for each in messages)


class LogStore:
    """The log as one member of a group sees it: a :class:`holdfast.streams.ports.MessageStore`."""

    def __init__(self, kept: HostMessageLog, given: Given, unavailable: Unavailable) -> None:
        self._kept, self._given, self._unavailable = kept, given, unavailable

    def request(self, origin: Origin, first: int, last: int) -> bool:
        return self._kept.request(origin, first, last, self._given, self._unavailable)
