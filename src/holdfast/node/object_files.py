"""The databases of a host's stored objects: SQLite on the machine's files, and shipping (W7, W8).

What reads or writes much is done on two threads beside the loop: one brings flushed pages into main files and
hashes them, in the order in which that was asked for; the other puts fetched files into their places.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import apsw
import structlog

from holdfast.execution.database import ObjectDatabase, Place, connect, settle
from holdfast.execution.database import translated as translated_by_sqlite
from holdfast.groups.object_file import Scratch
from holdfast.machine import MachineClock
from holdfast.machine.files import make_durably, open_private, sync_directory
from holdfast.model.errors import DISK_ERRORS, Corruption, DiskFailed, HoldfastError, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND, HostId
from holdfast.shipping.checkout import check_out
from holdfast.shipping.manifest import CHUNK_BYTES, Contents, ManifestId
from holdfast.shipping.progress import Progress
from holdfast.shipping.service import FREE_BYTES_MIN
from holdfast.shipping.shipping_thread import ShippingThread
from holdfast.storage.aside_file import AsideFailed, AsideFile
from holdfast.storage.disk import Directory
from holdfast.storage.segments import Readable
from holdfast.storage.volume import translated

DIRECTORY: Final = "databases"
"""The directory within the host's that has the databases of its objects."""
FETCHED: Final = ".fetched"
BESIDE: Final = ("", "-wal", "-shm")
"""What SQLite keeps of one database."""
ASKED_NS: Final = 10 * SECOND
"""A file that was asked for within this time is being fetched. Who fetches may read and hash for long before
it asks for more."""
KEPT_S: Final = 600.0
"""How long the shelf keeps what was fetched. Until a member is in sync it may need a newer state, most of
which it has then."""

Answer = TypeVar("Answer")
log = structlog.get_logger("holdfast.stored")


class ObjectDirectory:
    """Implements :class:`holdfast.groups.ports.FilesPort` on the loop's thread. *shipping* is asked for when
    it is needed, and raises ``Unavailable`` where it does not run."""

    chunk_bytes: Final = CHUNK_BYTES

    def __init__(
        self,
        host: Path,
        store: Path,
        adopt: Callable[[str], None],
        fail: Callable[[HoldfastError], None],
        shipping: Callable[[], tuple[ShippingThread, Path]],
    ) -> None:
        """*store* is the directory of checkpoints, and *adopt* registers a file there with its disk.
        *shipping* returns the thread and its shelf."""
        self._directory = host / DIRECTORY
        self._store = store
        self._adopt = adopt
        self._fail = fail
        self._shipping = shipping
        self._loop = asyncio.get_running_loop()
        self._clock = MachineClock()
        self._hashing = ThreadPoolExecutor(1, "objects")
        self._placing = ThreadPoolExecutor(1, "objects-fetched")
        self._scratch = ScratchDirectory(self._directory)
        try:
            make_durably(self._directory)
        except OSError as error:
            raise translated(error, str(self._directory)) from error

    # --- databases

    @property
    def directory(self) -> Scratch:
        return self._scratch

    def place(self, name: str) -> Place:
        return Place(str(self._directory / name))

    def list(self) -> list[str]:
        return sorted(os.listdir(self._directory))

    def remove(self, names: Iterable[str]) -> None:
        try:
            for name in names:
                for beside in BESIDE:
                    (self._directory / (name + beside)).unlink(missing_ok=True)
        except OSError as error:
            raise translated(error, str(self._directory)) from error

    def settle(
        self,
        database: ObjectDatabase,
        before: Callable[[], None],
        after: Callable[[int], Contents],
        then: Callable[[Contents | HoldfastError], None],
    ) -> None:
        place, began_ns = database.place, self._clock.now()

        def settled() -> int:
            try:
                before()
                connection = connect(place)
                try:
                    return settle(connection)
                finally:
                    connection.close(True)
            except (apsw.Error, AsideFailed, *DISK_ERRORS) as error:
                if database.is_closed:  # and its file removed
                    raise Unavailable(f"{place.path} was given up meanwhile: {error}") from error
                raise

        def hashed(frames: int) -> Contents:
            found = after(frames)
            took_ms = round((self._clock.now() - began_ns) / MILLISECOND)
            log.info("a stored object was settled", files=repr(found), bytes=found.bytes, took_ms=took_ms)
            return found

        if not database.is_wal_long:
            self._begin(self._hashing, lambda: hashed(settled()), then)
            return
        # Before the next operation begins, so that SQLite begins its WAL anew with it.
        try:
            before()
            frames = database.settle()
        except Unavailable as error:
            self._loop.call_soon(then, error)
        else:
            self._begin(self._hashing, lambda: hashed(frames), then)

    def describe(
        self, work: Callable[[], Contents], then: Callable[[Contents | HoldfastError], None]
    ) -> None:
        self._begin(self._hashing, work, then)

    # --- checkpoint files

    def write(self, name: str, data: Iterable[bytes], then: Callable[[], None]) -> None:
        pieces = list(data)

        def job() -> None:
            file = AsideFile(self._store / name)
            try:
                for piece in pieces:
                    file.write(piece)
                file.sync()
            finally:
                file.close()

        def written(error: HoldfastError | None) -> None:
            if error is None:
                self._adopt(name)
                then()

        self._begin(self._hashing, job, written)

    def discard(self, name: str) -> None:
        try:
            (self._store / name).unlink(missing_ok=True)
        except OSError as error:
            raise translated(error, name) from error

    # --- shipping

    def offer(self, contents: Contents, source: Readable) -> None:
        self._begin(self._hashing, lambda: self._shipping()[0].offer_from(contents, source), self._note)

    def withdraw(self, manifest: ManifestId) -> None:
        self._begin(self._hashing, lambda: self._shipping()[0].withdraw(manifest), self._note)

    def is_asked(self, manifest: ManifestId) -> bool:
        try:
            asked_ns = self._shipping()[0].asked_ns(manifest)
        except Unavailable:
            return False
        return asked_ns is not None and self._clock.now() - asked_ns < ASKED_NS

    def fetch(
        self,
        contents: Contents,
        file: str,
        sources: Sequence[HostId],
        name: str,
        then: Callable[[HoldfastError | None], None],
        *,
        removed: Sequence[str] = (),
        instead_of: Contents | None = None,
    ) -> None:
        def begin() -> "Future[Progress]":
            if removed:
                self.remove(removed)
                sync_directory(self._directory)
            return self._shipping()[0].fetch(contents, sources, instead_of)

        def begun(found: "Future[Progress] | HoldfastError") -> None:
            if isinstance(found, HoldfastError):
                then(found)
            else:
                found.add_done_callback(fetched)

        def fetched(future: "Future[Progress]") -> None:
            self._placing.submit(
                lambda: self._answer(lambda: self._put(contents, file, name, future.result()), ended)
            )

        def ended(error: HoldfastError | None) -> None:
            if error is None:
                log.info("files of an object were fetched", files=repr(contents), bytes=contents.bytes)
            then(error)

        self._begin(self._placing, begin, begun)

    def _put(self, contents: Contents, file: str, name: str, progress: Progress) -> None:
        """Put a fetched file into its place: the same file, where the disk has hard links."""
        shelf, aside = self._shipping()[1], self._directory / (name + FETCHED)
        shutil.rmtree(aside, ignore_errors=True)
        try:
            try:
                check_out(contents, shelf, aside, is_shared=True)
            except DiskFailed as error:
                log.info("a fetched file is copied, which takes longer", why=str(error))
                self._check_room(contents.bytes)
                check_out(contents, shelf, aside, is_shared=False)
        except Corruption as error:
            raise Unavailable(f"the next fetch mends it: {error}") from error
        try:
            self.remove([name])  # what SQLite may have left beside it
            (aside / file).rename(self._directory / name)
            aside.rmdir()
            sync_directory(self._directory)
        except OSError as error:
            raise translated(error, name) from error
        log.info("shipped", found=progress.found, received=progress.received, repeated=progress.repeated)

    def take(self, contents: Contents) -> None:
        shipping, shelf = self._shipping()
        shipping.drop(contents).result()
        sync_directory(shelf)

    def _check_room(self, wanted: int) -> None:
        """Raise ``Unavailable`` if *wanted* bytes would use up what the host's log needs: a full disk
        would end the host, with all its groups (D1, D5)."""
        try:
            free = shutil.disk_usage(self._directory).free
        except OSError as error:
            raise translated(error, str(self._directory)) from error
        if free < wanted + FREE_BYTES_MIN:
            said = f"{free >> 20} MB are free, {(wanted + FREE_BYTES_MIN) >> 20} MB are needed"
            raise Unavailable(f"the files of an object do not fit on the disk: {said}")

    def unshelve(self, contents: Contents) -> None:
        self._loop.call_later(KEPT_S, self._clear_shelf, contents)

    def _clear_shelf(self, contents: Contents) -> None:
        try:
            self._shipping()[0].drop(contents)
        except Unavailable as error:
            log.warning("fetched files stay on the shelf", files=repr(contents), why=str(error))

    def close(self) -> None:
        for each in (self._hashing, self._placing):
            each.shutdown(wait=False, cancel_futures=True)

    # --- the threads

    def _begin(
        self,
        threads: ThreadPoolExecutor,
        job: Callable[[], Answer],
        then: Callable[[Answer | HoldfastError], None],
    ) -> None:
        threads.submit(self._answer, job, then)

    def _answer(self, job: Callable[[], Answer], then: Callable[[Answer | HoldfastError], None]) -> None:
        """Do *job* on this thread and tell the loop. A failing disk ends the host (D1)."""
        found: Answer | HoldfastError
        try:
            found = job()
        except AsideFailed as error:
            found = DiskFailed(str(error))
        except apsw.BusyError as error:
            found = Unavailable(str(error))
        except apsw.Error as error:
            found = translated_by_sqlite(error, str(self._directory))
        except HoldfastError as error:
            found = error
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, found, then)

    def _tell(self, found: Answer | HoldfastError, then: Callable[[Answer | HoldfastError], None]) -> None:
        try:
            if isinstance(found, DISK_ERRORS):
                self._fail(found)
            else:
                then(found)
        except DISK_ERRORS as error:
            self._fail(error)

    def _note(self, found: object) -> None:
        if isinstance(found, HoldfastError):
            log.warning("a stored object is not offered", why=str(found))


class ScratchDirectory(Directory):
    """A directory in which files can be made, too, that only this process needs."""

    def append(self, name: str, data: bytes) -> None:
        try:
            with open_private(self._path / name, os.O_WRONLY | os.O_APPEND) as file:
                file.write(data)
        except OSError as error:
            raise translated(error, name) from error
