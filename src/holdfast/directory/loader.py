"""LDIF into the files of one master: many entries at once, with state or without, or one change at a time.

This is the driver of :mod:`.interchange.loading` and :mod:`.interchange.state_loading`. The files must not be
served meanwhile.
"""

import asyncio
import secrets
import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final

from msgspec import Struct, structs

from holdfast.clock.vector import Vector
from holdfast.directory.dn import Dn
from holdfast.directory.interchange.entry_text import has_state
from holdfast.directory.interchange.loading import SERVER_S, Loading
from holdfast.directory.interchange.replica_text import ReplicaText, is_replica, str2replica
from holdfast.directory.interchange.state_loading import StateLoading
from holdfast.directory.ldif import ChangeRecord, EntryRecord, InvalidLdif, Record
from holdfast.directory.master import Master
from holdfast.directory.operations import AddRequest, Attribute
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.access import SERVER
from holdfast.directory.replica.maps import CSNSTATE, REPLICA, TRIMMED, VECTOR
from holdfast.directory.replica.passwords import ROUNDS, SALT_BYTES, hashed, is_hashed
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.model.csn import Csn
from holdfast.model.errors import DiskFailed, InvalidRequest, Unavailable

LOAD_ENTRIES: Final = 2_000
"""How many entries one transaction of a load has."""
LOAD_BYTES: Final = 16 << 20
IN_FLIGHT_MAX: Final = 1_000
"""How many single changes wait for the disk together."""
CLOCK_WAIT_S: Final = 60.0
SERVER_NAMES: Final = frozenset(("entryuuid", "creatorsname", "modifiersname"))
"""What a load keeps of another server's export, and an operation does not."""

Progress = Callable[[int], None]
"""Told how many records are in."""


class LoadOptions(Struct, frozen=True, kw_only=True):
    """What is to be done with what an LDIF has."""

    ignored: frozenset[str] = frozenset()
    """Attributes that are left out, in lower case."""
    hash_passwords: bool = False
    """Whether passwords in clear are hashed; otherwise they are refused."""
    skip_existing: bool = False


class Loaded(Struct, kw_only=True):
    """What has come of it."""

    entries: int = 0
    changes: int = 0
    skipped: int = 0
    with_state: bool = False
    admin_dn: str = ""
    admin_password: str = ""


def head_of(records: Iterator[Record]) -> tuple[ReplicaText | None, Iterator[Record]]:
    """What an export with state says of its replica, and all records after that; None for an LDIF without
    state."""
    first = next(records, None)
    if first is None:
        raise InvalidLdif(1, "there is no record in it")
    if isinstance(first, EntryRecord) and is_replica(first):
        return str2replica(first), records
    if isinstance(first, EntryRecord) and has_state(first):
        raise InvalidLdif(
            first.line, "entries with state come after the record cn=replica,cn=config of their export"
        )
    return None, chain((first,), records)


async def load_state(
    master: Master, head: ReplicaText, records: Iterable[Record], progress: Progress
) -> Loaded:
    """Fill the files of *master*, which are new, with all entries of an export and their state."""
    if not master.is_new:
        raise InvalidRequest(
            f"{master.directory} has data: an export with state makes a directory that is new"
        )
    loading = StateLoading(master.schema, master.replica.suffix_name, head, _new_id)
    for record in records:
        loading.add(record)
        if loading.is_full:
            await master.load(loading.take_batch())
            progress(loading.entries)
    await master.load(loading.take_batch())
    with master.read() as reader:
        for batch in loading.derived(reader):
            await master.load(batch)
    progress(loading.entries)
    return Loaded(entries=loading.entries, with_state=True)


async def load_entries(
    master: Master, records: Iterable[Record], options: LoadOptions, progress: Progress
) -> Loaded:
    """Add many entries at once to files that no other master knows."""
    loaded = Loaded()
    reader = master.read()
    suffix = master.replica.suffix_name
    loading = Loading(master.schema, suffix, reader, SERVER.dn, ignored=options.ignored)
    administered = _Administered(suffix, loaded, is_new=master.is_new)
    vector = master.replica.vector
    csns: list[Csn] = []
    try:

        async def commit() -> None:
            nonlocal reader, vector
            batch = loading.take_batch()
            vector = Vector.of(vector.generation, (*vector, *csns[-1:]), retired=vector.retired)
            # There is no changelog of a load: whoever lacks it takes a full copy.
            batch.put(REPLICA, TRIMMED, vector.text().encode())
            batch.put(REPLICA, VECTOR, vector.text().encode())
            await master.load(batch)
            for each in csns:
                master.generator.commit(each)
            csns.clear()
            reader.close()
            reader = master.read()
            loading.committed(reader)
            progress(loaded.entries)

        for record in administered.records(records):
            if not isinstance(record, EntryRecord):
                raise InvalidLdif(
                    record.line, "this is a change among entries: put changes into a file of their own"
                )
            if options.hash_passwords:
                record = await asyncio.to_thread(_with_hashes, record)
            csn = await _take_csn(master)
            try:
                loading.add(record, csn, _new_id())
            except InvalidLdif as error:
                master.generator.abort(csn)
                cause = error.__cause__
                is_there = isinstance(cause, DirectoryError) and (
                    cause.result is ResultCode.ENTRY_ALREADY_EXISTS
                )
                if not (options.skip_existing and is_there):
                    raise
                loaded.skipped += 1
                continue
            csns.append(csn)
            loaded.entries += 1
            if loading.entries >= LOAD_ENTRIES or loading.size >= LOAD_BYTES:
                await commit()
        if csns:
            await commit()
        return loaded
    finally:
        reader.close()


async def load_changes(
    master: Master, records: Iterable[Record], options: LoadOptions, progress: Progress
) -> Loaded:
    """Carry out one record after the other, as a client would: changes, and entries that other masters are to
    be told of. What comes before a record that is refused stays."""
    loaded = Loaded()
    waiting: list[asyncio.Future[Csn]] = []
    replica = master.replica
    loop = asyncio.get_running_loop()

    async def settle() -> None:
        if waiting:
            await asyncio.wait((asyncio.gather(*waiting), master.failed), return_when=asyncio.FIRST_COMPLETED)
        if master.failed.done():
            raise DiskFailed(master.failed.result())
        waiting.clear()
        progress(loaded.changes)

    for record in records:
        change = record.change if isinstance(record, ChangeRecord) else _added(record, options)
        if isinstance(record, ChangeRecord) and record.controls:
            raise InvalidLdif(record.line, "controls are for LDAP clients: use ldapmodify for this")
        done: asyncio.Future[Csn] = loop.create_future()
        try:
            replica.execute(change, SERVER.dn, done.set_result)
        except DirectoryError as error:
            if options.skip_existing and error.result is ResultCode.ENTRY_ALREADY_EXISTS:
                loaded.skipped += 1
                continue
            await settle()
            raise InvalidLdif(
                record.line, f"{error.diagnostic} (the {loaded.changes} records before it are in)"
            ) from error
        waiting.append(done)
        loaded.changes += 1
        if len(waiting) >= IN_FLIGHT_MAX:
            await settle()
    await settle()
    return loaded


def is_alone(master: Master) -> bool:
    """Whether no other master can know these files: then a load needs no changelog."""
    vector = master.replica.vector
    is_told = any(key != CSNSTATE for key, _ in master.replica.kept())
    return all(csn.replica == master.replica.id for csn in vector) and not is_told


class _Administered:
    """Gives new data an administrator, if the LDIF names none."""

    def __init__(self, suffix: Suffix, loaded: Loaded, *, is_new: bool) -> None:
        self._suffix = suffix
        self._loaded = loaded
        self._is_new = is_new

    def records(self, records: Iterable[Record]) -> Iterator[Record]:
        if not self._is_new:
            yield from records
            return
        found = iter(records)
        first = next(found)
        admin = f"cn=admin,{self._suffix.text}"
        is_named = True
        if isinstance(first, EntryRecord):
            is_named = any(each.description.lower() == "administrator" for each in first.attributes)
            if not is_named:
                rule = Attribute("administrator", (admin.encode(),))
                first = structs.replace(first, attributes=(*first.attributes, rule))
        yield first
        key = str(Dn.parse(admin)).lower()
        is_there = False
        for record in found:
            is_there = is_there or (isinstance(record, EntryRecord) and record.dn.lower() == key)
            yield record
        if not is_named and not is_there:
            self._loaded.admin_dn, self._loaded.admin_password = admin, secrets.token_urlsafe(12)
            secret = hashed(self._loaded.admin_password.encode(), secrets.token_bytes(SALT_BYTES), ROUNDS)
            yield EntryRecord(
                0,
                admin,
                (
                    Attribute("objectClass", (b"organizationalRole", b"simpleSecurityObject")),
                    Attribute("cn", (b"admin",)),
                    Attribute("description", (b"administers the directory",)),
                    Attribute("userPassword", (secret,)),
                ),
            )


def _added(record: EntryRecord, options: LoadOptions) -> AddRequest:
    record = _with_hashes(record) if options.hash_passwords else record
    kept = tuple(
        each
        for each in record.attributes
        if each.description.partition(";")[0].lower() not in SERVER_S | SERVER_NAMES | options.ignored
    )
    return AddRequest(record.dn, kept)


def _with_hashes(record: EntryRecord) -> EntryRecord:
    attributes = tuple(
        structs.replace(each, values=tuple(_hash(value) for value in each.values))
        if each.description.lower() == "userpassword"
        else each
        for each in record.attributes
    )
    return structs.replace(record, attributes=attributes)


def _hash(value: bytes) -> bytes:
    return value if is_hashed(value) else hashed(value, secrets.token_bytes(SALT_BYTES), ROUNDS)


async def _take_csn(master: Master) -> Csn:
    deadline = asyncio.get_running_loop().time() + CLOCK_WAIT_S
    while True:
        try:
            return master.generator.take()
        except Unavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.01)  # the next future timestamp is on its way to the disk


def _new_id() -> EntryId:
    return EntryId(uuid.uuid4().bytes)
