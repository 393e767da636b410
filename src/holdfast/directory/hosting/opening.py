"""Which replica the store on this host's disk is (G3), and a number for its opening (V5).

The order matters: a new replica id is on the disk before the opening is numbered. After a crash in between
the store is still the stranger that it was, and gets yet another id.
"""

from collections.abc import Callable
from functools import partial

from holdfast.authority.directories import DirectoryRecord, NoDirectory, allot_replica
from holdfast.authority.driver import insist
from holdfast.authority.identity import AuthorityBehind
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.authority.store_opening import StoreOpening
from holdfast.directory.hosting.files import ReplicaFiles
from holdfast.directory.replica.maps import KEPT
from holdfast.directory.replication.identity import Decision, Step, decide
from holdfast.directory.replication.roster import SELF, TOLD_OVER, decoded_own, own_row
from holdfast.directory.replication.taking import HALF_COPIED
from holdfast.directory.store import Batch
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId, Nonce, ReplicaId
from holdfast.storage.identity import Behind, Ours


class IdNeeded(Exception):
    """Raised when a new replica id is needed, which only the authority gives."""


class PreparedIds:
    """The ids of one host as the decision asks for them, with a new one if it was fetched already."""

    def __init__(self, former: tuple[ReplicaId, ...], new: ReplicaId | None = None) -> None:
        self._former = former
        self._new = new

    def allot(self) -> ReplicaId:
        if self._new is None:
            raise IdNeeded
        return self._new

    def former(self) -> list[ReplicaId]:
        return list(self._former)


class HostIds:
    """Where one host's replica ids come from: the authority, which gives each once."""

    def __init__(
        self,
        host: HostId,
        authority: Authority,
        nonces: Callable[[], Nonce],
        record: Callable[[], DirectoryRecord],
        on_record: Callable[[Seen[DirectoryRecord]], None],
    ) -> None:
        """*record* is what is known of the directory; *on_record* is told what an allotment made of it."""
        self._host = host
        self._authority = authority
        self._nonces = nonces
        self._record = record
        self._on_record = on_record

    def known(self) -> PreparedIds:
        return PreparedIds(self._record().ids_of(self._host))

    async def with_new(self) -> PreparedIds:
        """Get a new id, however long the authority takes."""
        suffix, nonce = self._record().suffix, self._nonces()
        found = await insist(
            lambda: perform(self._authority, allot_replica(suffix, self._host, nonce=nonce)),
            Seen,
            NoDirectory,
        )
        if isinstance(found, NoDirectory):
            raise InvalidRequest(f"the domain has no directory {found.suffix}")
        self._on_record(found)
        *former, new = found.value.ids_of(self._host)
        return PreparedIds(tuple(former), new)


async def open_store(
    files: ReplicaFiles,
    host: HostId,
    authority: Authority,
    nonces: Callable[[], Nonce],
    ids: HostIds,
    *,
    is_read_only: bool,
) -> Decision:
    """Say which replica the store is, write that down, and number the opening. Raises ``AuthorityBehind`` if
    the authority was restored, and the disk's errors."""
    opening = StoreOpening(files.identity, host, authority, nonces, files.durably)
    while True:
        await opening.settle()
        verdict = await opening.verdict()
        if isinstance(verdict, Behind):
            raise AuthorityBehind(f"{verdict.reason}; see `holdfast authority restore`")
        is_ours = isinstance(verdict, Ours)
        decision = await _decided(files, ids, is_continued=is_ours, is_read_only=is_read_only)
        await _write_own(files, decision)
        if not is_ours:
            await opening.found()
        if await opening.number():
            return decision
        # Another has opened a copy of this disk meanwhile.


async def _decided(files: ReplicaFiles, ids: HostIds, *, is_continued: bool, is_read_only: bool) -> Decision:
    with files.store.read() as reader:
        own = reader.get(KEPT, SELF)
        is_half = reader.get(KEPT, HALF_COPIED) is not None
        is_told = reader.get(KEPT, TOLD_OVER) is not None
    decision = partial(
        decide,
        None if own is None else decoded_own(own),
        is_continued=is_continued,
        is_half_copied=is_half,
        is_told_over=is_told,
        is_read_only=is_read_only,
    )
    try:
        return decision(ids=ids.known())
    except IdNeeded:
        return decision(ids=await ids.with_new())


async def _write_own(files: ReplicaFiles, decision: Decision) -> None:
    """Write the row of a replica that was decided anew; one that is initialised begins with writing it."""
    if decision.is_changed and decision.step is not Step.INITIALISE:
        batch = Batch()
        batch.put(KEPT, *own_row(decision.own))
        batch.erase(KEPT, TOLD_OVER)
        await files.write(batch)
