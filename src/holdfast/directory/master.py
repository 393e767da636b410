"""One master on one machine: a directory of files with a store, a clock, and what they belong to.

This is the driver of a :class:`.Replica`. The files:

``master.json``  the suffix, and the number of the replica
``clock/``       the generator's future timestamp
``store/``       entries, indexes, changelog and vector, in LMDB
``loading/``     a copy of the store, into which many entries are being loaded
"""

import asyncio
import secrets
import shutil
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Final

import msgspec

from holdfast.clock import ClockPorts, Generator
from holdfast.directory.dn import Dn
from holdfast.directory.lmdb_store import FILE, LOCK, LmdbStore
from holdfast.directory.operations import AddRequest, Attribute, Change
from holdfast.directory.replica.access import SERVER
from holdfast.directory.replica.maps import CSNSTATE, KEPT, MAPS
from holdfast.directory.replica.passwords import SALT_BYTES, hashed
from holdfast.directory.replica.replica import Replica, ReplicaPorts
from holdfast.directory.schema.schema import Schema
from holdfast.directory.schema.standard import standard_schema
from holdfast.directory.store import Batch, Reader
from holdfast.machine.files import make_private, rename_durably, write_durably
from holdfast.machine.real_ports import LoopTimers, MachineClock, MachineRandom
from holdfast.machine.trace import LogTrace
from holdfast.model.csn import Csn
from holdfast.model.errors import DiskFailed, InvalidRequest
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import Token
from holdfast.storage.disk import FileDisk
from holdfast.storage.lock import DirectoryLock

ABOUT: Final = "master.json"
LOAD: Final = "load"
STORE: Final = "store"
LOADING: Final = "loading"
STOP_LOOK_S: Final = 0.005
STORED_WAIT_S: Final = 60.0
"""How long the first future timestamp may take to be on the disk."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory of files is."""

    suffix: str
    replica: int


def read_about(directory: Path) -> About | None:
    """What *directory* was made for; None if nothing was."""
    try:
        return msgspec.json.decode((directory / ABOUT).read_bytes(), type=About)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"{directory / ABOUT} cannot be read: {error}") from error


class Master:
    """An open replica. ``failed`` is done, with the reason, when the process must end (D1)."""

    def __init__(self, directory: Path, suffix: str, replica: int, loop: asyncio.AbstractEventLoop) -> None:
        self.directory = directory
        self.failed: asyncio.Future[str] = loop.create_future()
        self._loop = loop
        make_private(directory)
        self._lock = DirectoryLock.take(directory)
        self.is_new = not (directory / STORE / FILE).exists()
        self._note(About(suffix=suffix, replica=replica))
        self._stored = asyncio.Event()
        self._loads: dict[Token, asyncio.Future[None]] = {}
        trace = LogTrace(suffix=suffix)
        self._timers = LoopTimers(loop, self._on_timer)
        self._disk = FileDisk(directory / "clock", self._on_synced, loop.call_soon_threadsafe)
        self.generator = Generator(
            ClockPorts(MachineClock(), self._timers, self._disk, trace),
            ReplicaId(replica),
            on_stored=self._stored.set,
            on_failed=self._fail,
        )
        shutil.rmtree(directory / LOADING, ignore_errors=True)  # of a load that did not come to its end
        self._store = LmdbStore(directory / STORE, MAPS, self._on_committed, self._post)
        self._loading: LmdbStore | None = None
        self._is_loaded = False
        self.schema: Schema = standard_schema()
        ports = ReplicaPorts(self._store, self.generator, MachineRandom(), trace)
        self.replica = Replica(ports, self.schema, suffix, on_failed=self._fail)

    def _note(self, about: About) -> None:
        known = read_about(self.directory)
        if known == about:
            return
        if known is not None:
            raise InvalidRequest(
                f"{self.directory} holds replica {known.replica} of {known.suffix}, "
                f"not replica {about.replica} of {about.suffix}"
            )
        write_durably(self.directory / ABOUT, msgspec.json.encode(about))

    @classmethod
    async def open(
        cls, directory: Path, suffix: str, *, replica: int = 1, generation: str | None = None
    ) -> "Master":
        """Open the files of *directory*, making them if they are not there. New data get the mark
        *generation*, or one of their own."""
        master = cls(directory, suffix, replica, asyncio.get_running_loop())
        try:
            master.generator.open(is_new=master.is_new, csnstate=master._csnstate())
            await asyncio.wait_for(master._stored.wait(), STORED_WAIT_S)
            master.replica.open(generation=(generation or secrets.token_hex(8)) if master.is_new else None)
            # What the store has may be ahead of the clock's own file: then that must be stored first.
            await asyncio.wait_for(master._timestamp_stored(), STORED_WAIT_S)
        except TimeoutError:
            master.close()
            raise DiskFailed(f"{directory}: the clock was not stored within {STORED_WAIT_S:g} s") from None
        except BaseException:
            master.close()
            raise
        return master

    async def _timestamp_stored(self) -> None:
        while True:
            status = self.generator.status()
            if status.state.position[0] < status.until:
                return
            self._stored.clear()
            await self._stored.wait()

    async def execute(self, request: Change, who: str = SERVER.dn) -> Csn:
        """Have the server itself change something, and wait until it is on the disk."""
        done: asyncio.Future[Csn] = self._loop.create_future()
        self.replica.execute(request, who, lambda csn: None if done.done() else done.set_result(csn))
        await asyncio.wait((done, self.failed), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise DiskFailed(self.failed.result())
        return done.result()

    async def begin_load(self) -> None:
        """Load into a copy of the store from now on. What was loaded counts only after
        :meth:`finish_load`, all of it at once: the copy gets the store's name when this is closed."""
        await asyncio.to_thread(self._store.copy, self.directory / LOADING)
        self._loading = LmdbStore(self.directory / LOADING, MAPS, self._on_committed, self._post)

    def finish_load(self) -> None:
        self._is_loaded = self._loading is not None

    async def load(self, batch: Batch) -> None:
        """Write rows beside the replica, and wait until they are on the disk. The replica knows nothing of
        them: after a load, the files are opened anew."""
        token = (LOAD, len(self._loads))
        done = self._loads[token] = self._loop.create_future()
        (self._loading or self._store).write(batch, token)
        await asyncio.wait((done, self.failed), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise DiskFailed(self.failed.result())

    def read(self) -> Reader:
        """What is on the disk now, with what is being loaded."""
        return (self._loading or self._store).read()

    async def plant(self, password: bytes, *, rounds: int) -> str:
        """Make the first two entries of new data: the suffix's own, and its administrator, whose name is
        returned."""
        admin = f"cn=admin,{self.replica.suffix}"
        secret = await asyncio.to_thread(hashed, password, secrets.token_bytes(SALT_BYTES), rounds)
        await self.execute(top_entry(self.replica.suffix_name.dn, admin))
        await self.execute(admin_entry(admin, secret))
        return admin

    async def stop(self) -> None:
        """Store exactly where the next run's CSNs may go on, and close. After a plain :meth:`close` they go
        on at the future timestamp, as after a crash (CSN-24)."""
        self.generator.close()
        end = self._loop.time() + STORED_WAIT_S
        while not self.generator.is_closed and not self.failed.done() and self._loop.time() < end:
            await asyncio.sleep(STOP_LOOK_S)
        self.close()

    def close(self) -> None:
        """Commit what waits, and let the files go."""
        self.generator.close()
        self.replica.close()
        self._store.close()
        if self._loading is not None:
            self._loading.close(is_dropping=not self._is_loaded)
            self._loading = None
        if self._is_loaded:
            self._is_loaded = False
            rename_durably(self.directory / LOADING / FILE, self.directory / STORE / FILE)
            # Who still reads the old file has its readers' table; the new file must not share it.
            (self.directory / STORE / LOCK).unlink(missing_ok=True)
        shutil.rmtree(self.directory / LOADING, ignore_errors=True)
        self._disk.close()
        self._timers.close()
        self._lock.release()

    def _csnstate(self) -> str | None:
        """The state of the generator's entry, as it was written last (CSN-43)."""
        with self._store.read() as reader:
            row = reader.get(KEPT, CSNSTATE)
        return None if row is None else row.decode()

    def _post(self, work: Callable[[], None]) -> None:
        """Run *work* on the loop; called on the store's thread."""
        self._loop.call_soon_threadsafe(work)

    def _on_timer(self, tag: Hashable) -> None:
        self.generator.on_timer(tag)

    def _on_synced(self, token: Token, ok: bool) -> None:
        self.generator.on_synced(token, ok)

    def _on_committed(self, token: Token, ok: bool) -> None:
        load = self._loads.get(token)
        if load is None:
            self.replica.on_committed(token, ok)
        elif ok and not load.done():
            load.set_result(None)
        elif not ok:
            self._fail("a transaction could not be committed")

    def _fail(self, why: str) -> None:
        if not self.failed.done():
            self.failed.set_result(self._store.failure or why)


TOP_CLASSES: Final = {
    "dc": ("domain",),
    "o": ("organization",),
    "ou": ("organizationalUnit",),
    "c": ("country",),
    "l": ("locality",),
}


def admin_entry(admin: str, secret: bytes) -> AddRequest:
    """The entry of the administrator, whose hashed password is *secret*."""
    return AddRequest(
        admin,
        (
            Attribute("objectClass", (b"organizationalRole", b"simpleSecurityObject")),
            Attribute("cn", (b"admin",)),
            Attribute("description", (b"administers the directory",)),
            Attribute("userPassword", (secret,)),
        ),
    )


def top_entry(dn: Dn, admin: str) -> AddRequest:
    """The suffix's own entry, of the class that its name calls for."""
    ava = dn.rdn[0]
    classes = TOP_CLASSES.get(ava.attribute.lower())
    if classes is None or len(dn.rdn) != 1:
        raise InvalidRequest(
            f"a suffix begins with one of {', '.join(TOP_CLASSES)} (such as dc=example,dc=com), not {ava}"
        )
    return AddRequest(
        str(dn),
        (
            Attribute("objectClass", tuple(each.encode() for each in classes)),
            Attribute(ava.attribute, (ava.value,)),
            Attribute("administrator", (admin.encode(),)),
        ),
    )
