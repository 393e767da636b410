"""What a manager keeps on disk: its context, and the log of a transaction whose end is not known yet.

A commit turns the log into the context by one rename; a rollback removes the log (IM-22, IM-26, IM-29).
Writes are made one after the other, in the order they were requested. To the control plane a :class:`Context`
is a number and bytes; equal numbers mean equal bytes.
"""

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.control.coordination.config import CONTEXT_BYTES_MAX
from holdfast.model.errors import Corruption, HoldfastError, invariant
from holdfast.model.ports import Disk, Token
from holdfast.storage.identity import Form, WholeFile

DIGEST_BYTES: Final = 16


class Context(Struct, frozen=True, array_like=True):
    """One committed or proposed state context. *cas* is the number of the transaction that made it; 0 if
    there was none."""

    cas: int = 0
    body: bytes = b""

    @property
    def digest(self) -> bytes:
        return digest_of(self.cas, self.body)


def digest_of(cas: int, body: bytes) -> bytes:
    return blake2b(body, digest_size=DIGEST_BYTES, salt=cas.to_bytes(8, "little")).digest()


_BYTES_MAX: Final = CONTEXT_BYTES_MAX + 1024
_CONTEXT: Final = Form("context", "the state context", magic=b"HoldContext1", bytes_max=_BYTES_MAX)
_LOG: Final = Form("context.log", "the log of a transaction", magic=b"HoldContext1", bytes_max=_BYTES_MAX)

_decoder: Final = msgspec.msgpack.Decoder(Context)
Then = Callable[[], None]


class StateFile:
    """The context and the log on this host's disk. *damaged* names what could not be read at the start; it
    counts as absent. A host that holds nothing cannot be elected and gets the coordinator's copy (T3)."""

    def __init__(self, disk: Disk, on_failed: Callable[[HoldfastError], None]) -> None:
        self.damaged: list[Corruption] = []
        self.context: Context = self._loaded(disk, _CONTEXT) or Context()
        self.log: Context | None = self._loaded(disk, _LOG)
        self._context_file = WholeFile(disk, _CONTEXT, on_failed)
        self._log_file = WholeFile(disk, _LOG, on_failed)
        self._waiting: deque[tuple[Callable[[Then], None], Then]] = deque()
        self._is_busy = False

    def keep_log(self, proposed: Context, then: Then) -> None:
        """Phase one: store *proposed* next to the context (IM-22)."""

        def write(done: Then) -> None:
            def written() -> None:
                self.log = proposed
                done()

            self._log_file.write(msgspec.msgpack.encode(proposed), written)

        self._enqueue(write, then)

    def promote(self, cas: int, then: Then) -> None:
        """Commit: make the log of *cas* the context (IM-29)."""

        def rename(done: Then) -> None:
            log = self.log
            invariant(log is not None and log.cas == cas, f"only a log that was kept is promoted, not {cas}")
            assert log is not None  # for the type checker only

            def renamed() -> None:
                self.context, self.log = log, None
                done()

            self._context_file.rename(_LOG.name, renamed)

        self._enqueue(rename, then)

    def drop_log(self, then: Then) -> None:
        """Roll back by removing the log (IM-26), if there is one."""

        def remove(done: Then) -> None:
            def removed() -> None:
                self.log = None
                done()

            self._log_file.remove(removed)

        self._enqueue(remove, then)

    def replace(self, context: Context, then: Then) -> None:
        """Store the coordinator's copy (IM-75). The log of an older update is removed first, because settling
        it later would replace the copy."""
        if self.log is not None and self.log.cas < context.cas:
            self.drop_log(lambda: None)

        def write(done: Then) -> None:
            def written() -> None:
                self.context = context
                done()

            self._context_file.write(msgspec.msgpack.encode(context), written)

        self._enqueue(write, then)

    def when_idle(self, then: Then) -> None:
        """Call *then* once everything requested so far is durable."""
        self._enqueue(lambda done: done(), then)

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Handle a sync result of the disk. Returns False if it was not for this file."""
        return self._context_file.on_synced(token, ok) or self._log_file.on_synced(token, ok)

    def _enqueue(self, work: Callable[[Then], None], then: Then) -> None:
        self._waiting.append((work, then))
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and not self._is_busy:
            self._is_busy = True
            work, then = self._waiting.popleft()
            work(lambda then=then: self._done(then))  # type: ignore[misc]  # bound now

    def _done(self, then: Then) -> None:
        self._is_busy = False
        then()
        self._go_on()

    def _loaded(self, disk: Disk, form: Form) -> Context | None:
        try:
            record = form.load(disk)
            return None if record is None else _decoder.decode(record)
        except Corruption as damage:
            self.damaged.append(damage)
        except msgspec.DecodeError as error:
            self.damaged.append(form.damaged(str(error)))
        return None
