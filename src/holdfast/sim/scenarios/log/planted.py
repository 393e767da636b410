"""Bugs planted in the log, its recovery, the checkpoints and the store's identity.

Each is a mistake that real logs have made, and breaks a rule of the protocol.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec

from holdfast.model.errors import Conflict, HoldfastError, NoSpace
from holdfast.model.ids import GroupId, HostId, Nonce, Opening
from holdfast.model.ports import Disk
from holdfast.sim.runner.planted import Planted, Planting, replacing
from holdfast.sim.scenarios.log import host
from holdfast.storage import checkpoint, checkpoints
from holdfast.storage.batch import Place
from holdfast.storage.checkpoint import Checkpoint, CheckpointWriter
from holdfast.storage.identity import Ours, Store, StoreIdentity, Stranger
from holdfast.storage.log import Holds, Log
from holdfast.storage.record import checked
from holdfast.storage.record_map import Replay, packed
from holdfast.storage.recovery import Scan
from holdfast.storage.segments import FileHeader, Readable, encode_file_header, file_name
from holdfast.storage.syncs import Syncs
from holdfast.storage.writer import Phase, Writer

# --- writing


def _acknowledge_before_sync(writer: Writer) -> None:
    before = writer._written
    _write_sealed(writer)
    if writer.phase is Phase.OPEN and writer._written != before:
        writer.on_durable(writer._written[0])


_write_sealed = Writer._write_sealed


def _cover_what_came_later(writer: Writer, appended: int, end: Place, ok: bool) -> None:
    """Reports as durable everything gathered while the sync ran."""
    _on_batch(writer, writer.gathering.appended, end, ok)


_on_batch = Writer._on_batch


def _write_out_of_turn(writer: Writer) -> None:
    """Writes a batch at once, although the batch claims that the log is synced up to it."""
    disk, writer._disk = writer._disk, _OutOfTurn(writer._disk, writer._syncs)  # type: ignore[assignment]  # has only what is used
    _write_sealed(writer)
    writer._disk = disk


class _OutOfTurn:
    """Begins every durable write at once."""

    def __init__(self, disk: Disk, syncs: Syncs) -> None:
        self._disk = disk
        self._syncs = syncs

    def write_durably(self, name: str, offset: int, data: bytes, then: Callable[[bool], None]) -> None:
        self._disk.write_at(name, offset, data)
        self._syncs.after([name], partial(then, True))

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)


def _forget_names(writer: Writer, number: int, then: Callable[[], None]) -> None:
    """Creates a file without syncing its directory."""
    name = file_name(number)
    writer.files.append(number)
    writer._disk.allocate(name, writer._config.file_bytes)
    header = FileHeader(writer._config.sector_bytes, writer._config.file_bytes, number, writer._salt)
    writer._disk.write_at(name, 0, encode_file_header(header))
    writer._syncs.after([name], partial(writer._file_made, number, then))


def _trust_what_is_seen(writer: Writer, file: int, start: int, end: int) -> None:
    """Takes what the operating system shows after a restart for what is on the disk."""


def _remove_at_once(writer: Writer, then: Callable[[], None]) -> None:
    """Removes the next file before the removal of this one is durable."""
    file = writer.files.pop(0)
    del writer._ready[file]
    writer._disk.remove(file_name(file))
    then()


def _go_on_when_full(writer: Writer, error: HoldfastError) -> None:
    """Treats a full disk as a temporary problem: drops what did not fit and continues."""
    if not isinstance(error, NoSpace):
        _stop(writer, error)


_stop = Writer._stop


def _retry(writer: Writer, appended: int, end: Place, ok: bool) -> None:
    """Repeats a sync that has failed."""
    if not ok:
        writer._syncs.after([file_name(end.file)], partial(_on_batch, writer, appended, end, True))
        return
    _on_batch(writer, appended, end, ok)


def _take_any_record(log: Log, encoded: bytes) -> int:
    """Takes a record for the next one of its group, whatever it says of the one before."""
    try:
        return _append_received(log, encoded)
    except Conflict:
        checksum, _, group, epoch, _, count = checked(encoded)
        place = log._gathering.put(encoded)
        log._index(group).add(count, epoch, checksum, packed(place), len(encoded))
        return log._gathering.appended


_append_received = Log.append_received


# --- recovery and pruning


def _cut_damage(scan: Scan, spot: Place) -> None:
    """Cuts the log at the first bad spot, whatever follows it."""
    scan._found.end = spot
    scan._found.blank = scan._remains(spot)
    scan._found.is_doubtful = True


def _see_no_remains(scan: Scan, spot: Place) -> dict[int, tuple[int, int]]:
    """Takes a torn last batch for the end of the log."""
    return {}


def _believe_part_of_a_copy(replay: Replay, group: GroupId) -> None:
    """Lets a copy replace the older records before all of the copy has been read."""
    copy, count = replay._copies[group]
    if copy.records == count:
        del replay._copies[group]
    replay._anchor(group, copy)


def _need_nothing(holds: Holds, file: int) -> bool:
    """Prunes files that some group still needs, instead of copying its records forward."""
    return True


# --- checkpoints


def _rename_unsynced(writer: CheckpointWriter, done: Checkpoint, then: Callable[[Checkpoint], None]) -> None:
    """Counts a checkpoint whose name may not survive a power cut."""
    writer._disk.rename(writer._name, done.name)
    then(done)


def _finish_unsynced(writer: CheckpointWriter, then: Callable[[Checkpoint], None]) -> None:
    """Renames the checkpoint before its content is synced."""
    syncs, writer._syncs = writer._syncs, _NoSyncs(writer._syncs)  # type: ignore[assignment]  # has only what is used
    _finish(writer, then)
    writer._syncs = syncs


class _NoSyncs:
    """Syncs directories only."""

    def __init__(self, syncs: Syncs) -> None:
        self._syncs = syncs

    def after(self, names: Iterable[str], then: Callable[[], None], *, directory: bool = False) -> None:
        self._syncs.after((), then, directory=directory)


_finish = CheckpointWriter.finish


@contextmanager
def _trust_checkpoints() -> Iterator[None]:
    """Trusts the content of a checkpoint without checking the hashes."""

    def read_chunk(disk: Readable, found: Checkpoint, number: int) -> bytes:
        return checkpoint._framed_chunk(disk, found, number)[1]

    with (
        replacing(checkpoints, "verify", checkpoint.read_header),
        replacing(checkpoint, "read_chunk", read_chunk),
    ):
        yield


# --- identity


def _ignore_numbers(
    store: Store | None, host: HostId, recorded: tuple[Opening, Nonce] | None
) -> Ours | Stranger:
    """Accepts any disk that names this host."""
    if store is None or store.host != host:
        return Stranger("no store of this host")
    return Ours(store)


def _raise_whatever_is_held(running: host.Host) -> None:
    """The authority's side of the bug above: it raises the number of any store that asks."""
    store = running._store()
    assert store.intent is not None
    running.account.openings[store.store] = (Opening(store.opening + 1), store.intent)
    running._later("finish")


@contextmanager
def _number_nothing() -> Iterator[None]:
    with (
        replacing(host, "plan", _ignore_numbers),
        replacing(host.Host, "_raise_number", _raise_whatever_is_held),
    ):
        yield


def _keep_intent_in_memory(identity: StoreIdentity, nonce: Nonce, then: Callable[[], None]) -> None:
    """Raises the number at the authority before the intent is on the disk."""
    assert identity.store is not None
    identity.store = msgspec.structs.replace(identity.store, intent=nonce)
    then()


_bug: Final = Planting("log")


PLANTED = (
    _bug(
        "acknowledges-before-sync",
        "S5",
        "records are reported durable when they are written, not when they are synced",
        Writer,
        "_write_sealed",
        _acknowledge_before_sync,
        "power",
    ),
    _bug(
        "covers-what-came-later",
        "S5",
        "the end of a sync counts for records that were written after it began",
        Writer,
        "_on_batch",
        _cover_what_came_later,
        "slow-kills",
    ),
    _bug(
        "retries-failed-sync",
        "D1",
        "a failed sync is tried again, and the second answer believed",
        Writer,
        "_on_batch",
        _retry,
        "syncs",
    ),
    _bug(
        "goes-on-when-full",
        "D1",
        "a full disk does not stop the log",
        Writer,
        "_stop",
        _go_on_when_full,
        "full",
    ),
    _bug(
        "trusts-what-it-sees",
        "D1",
        "after a restart, bytes that a failed sync left in memory only count as synced",
        Writer,
        "_rewrite",
        _trust_what_is_seen,
        "syncs",
    ),
    _bug(
        "cuts-damage",
        "D2",
        "the log is cut at the first bad checksum, also below the synced mark",
        Scan,
        "_look_on",
        _cut_damage,
        "damage",
    ),
    _bug(
        "takes-a-torn-tail-for-the-end",
        "D2",
        "a damaged last batch is cut without a word",
        Scan,
        "_remains",
        _see_no_remains,
        profile="rot",
    ),
    _bug(
        "marks-what-is-written",
        "D2",
        "a batch vouches for batches that were written before it but not synced",
        Writer,
        "_write_sealed",
        _write_out_of_turn,
        "power",
    ),
    _bug(
        "forgets-names-of-files",
        "D3",
        "the directory is not synced after a file of the log was made",
        Writer,
        "_make_file",
        _forget_names,
        "power",
    ),
    _bug(
        "forgets-names-of-checkpoints",
        "D3",
        "the directory is not synced after a checkpoint was renamed",
        CheckpointWriter,
        "_rename",
        _rename_unsynced,
        "power",
    ),
    _bug(
        "renames-unsynced-checkpoints",
        "D3",
        "a checkpoint gets its final name before its content is synced",
        CheckpointWriter,
        "finish",
        _finish_unsynced,
        "power",
    ),
    Planted(
        name="log-trusts-checkpoints",
        rule="D3",
        scenario="log",
        summary="a checkpoint is served without its hashes being checked",
        plant=_trust_checkpoints,
        profile="rot",
    ),
    _bug(
        "prunes-without-copying",
        "D4",
        "files are removed though a group still needs them",
        Holds,
        "is_free",
        _need_nothing,
    ),
    _bug(
        "believes-part-of-a-copy",
        "D4",
        "records copied forward replace the old ones before all of them are there",
        Replay,
        "_maybe_finish_copy",
        _believe_part_of_a_copy,
        "power",
    ),
    _bug(
        "removes-files-at-once",
        "D3",
        "several files are removed without syncing the directory between them",
        Writer,
        "remove_oldest",
        _remove_at_once,
        "power",
    ),
    _bug(
        "takes-any-record",
        "S2",
        "a received record's predecessor is not compared with the tail",
        Log,
        "append_received",
        _take_any_record,
    ),
    Planted(
        name="log-ignores-opening-numbers",
        rule="V5",
        scenario="log",
        summary="a disk put back from a backup is believed",
        plant=_number_nothing,
    ),
    _bug(
        "keeps-intent-in-memory",
        "V5",
        "the number is raised at the authority before the intent is durable",
        StoreIdentity,
        "begin_opening",
        _keep_intent_in_memory,
        "slow-kills",
    ),
)
