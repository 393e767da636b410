"""What the server says of a replica below ``cn=config``: how far it is, and its conflicts.

``cn=replica,cn=config`` has the vector and how many conflicts there are, so that a monitor needs one read.
Below ``cn=conflicts,cn=config`` stands an entry for every conflict, with both sides. It is resolved there, by
any LDAP client: ``conflictResolution: kept`` leaves everything as it is, ``lost`` takes the other side.
"""

from collections.abc import Callable
from typing import Final

from holdfast.directory.conflict_text import KEPT, chosen, told
from holdfast.directory.conflicts import Conflict
from holdfast.directory.dn import Dn
from holdfast.directory.operations import Change, DeleteRequest, ModificationKind, ModifyRequest
from holdfast.directory.primitives import EntryId, uuid_text
from holdfast.directory.replica.commit_times import CommitTimes
from holdfast.directory.replica.replica import Replica
from holdfast.directory.replica.view import Attributes
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest

REPLICA_DN: Final = "cn=replica,cn=config"
CONFLICTS_DN: Final = "cn=conflicts,cn=config"
RESOLUTION: Final = "conflictresolution"
SHOWN_MAX: Final = 10_000
"""How many conflicts are entries at once; with more, resolve some to see the others."""


class ConfigEntries:
    """The entries of one replica, by name, as they are now."""

    def __init__(self, replica: Replica, times: CommitTimes) -> None:
        self._replica = replica
        self._times = times

    def entries(self) -> dict[str, Attributes]:
        """User attributes by name, parents first."""
        replica = self._replica
        found = replica.conflicts()
        entries: dict[str, Attributes] = {
            REPLICA_DN: {
                "objectClass": (b"top", b"replica"),
                "cn": (b"replica",),
                "replicaSuffix": (replica.suffix.encode(),),
                "replicaID": (str(replica.id).encode(),),
                "replicaVector": (replica.vector.text().encode(),),
                "conflictCount": (str(len(found)).encode(),),
                "csnCount": (self._counts().encode(),),
            },
            CONFLICTS_DN: {"objectClass": (b"top", b"extensibleObject"), "cn": (b"conflicts",)},
        }
        snapshot = replica.snapshot()

        def dn_of(entry: EntryId) -> str:
            return f"entryUUID={uuid_text(entry)}" if snapshot.shown(entry) is None else snapshot.dn(entry)[0]

        try:
            for conflict in found[:SHOWN_MAX]:
                text = told(conflict, dn_of)
                attributes: Attributes = {
                    "objectClass": (b"top", b"conflictRecord"),
                    "conflictID": (text.id.encode(),),
                    "conflictKind": (text.kind.encode(),),
                    "conflictEntry": (text.dn.encode(),),
                    "conflictKept": (text.kept.encode(),),
                    "conflictLost": (text.lost.encode(),),
                    "description": (text.resolve.encode(),),
                }
                if text.attribute:
                    attributes["conflictAttribute"] = (text.attribute.encode(),)
                entries[f"conflictID={text.id},{CONFLICTS_DN}"] = attributes
        finally:
            snapshot.close()
        return entries

    def _counts(self) -> str:
        """What became of the CSNs that this process gave: assigned is the sum of the others (CSN-50)."""
        given = self._replica.generator.assignments
        return (
            f"assigned={given.assigned} committed={given.committed} aborted={given.aborted} "
            f"in_flight={given.in_flight} callback_failures={given.callback_failures} "
            f"median_ms={1000 * self._times.quantile(0.5):.3f} p99_ms={1000 * self._times.quantile(0.99):.3f}"
        )

    def resolve(self, request: Change, dn: Dn, done: Callable[[Csn], None]) -> Csn | None:
        """Resolve the conflict that *dn* names, as the request says; None if it names none. Deleting its
        entry keeps things as they are."""
        if len(dn) != 3 or len(dn.rdn) != 1 or dn.rdn[0].attribute.lower() != "conflictid":
            return None
        wanted = dn.rdn[0].value.decode("utf-8", "replace")
        keep = self._choice(request)
        conflict = find_conflict(self._replica.conflicts(), wanted)
        if conflict is None:
            raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "there is no such conflict, or no longer")
        try:
            return self._replica.settle(conflict, done, keep=keep)
        except InvalidRequest as error:
            if isinstance(error, DirectoryError):
                raise
            raise DirectoryError(ResultCode.UNWILLING_TO_PERFORM, str(error)) from error

    def _choice(self, request: Change) -> bool:
        match request:
            case DeleteRequest():
                return chosen(KEPT)
            case ModifyRequest(changes=(change,)) if (
                change.description.lower() == RESOLUTION
                and change.kind in (ModificationKind.ADD, ModificationKind.REPLACE)
                and len(change.values) == 1
            ):
                try:
                    return chosen(change.values[0].decode("utf-8", "replace"))
                except ValueError as error:
                    raise DirectoryError(ResultCode.CONSTRAINT_VIOLATION, str(error)) from error
        raise DirectoryError(
            ResultCode.UNWILLING_TO_PERFORM,
            "replace conflictResolution, with kept or lost, to resolve a conflict; or delete its entry",
        )


def find_conflict(found: list[Conflict], wanted: str) -> Conflict | None:
    return next((each for each in found if each.id == wanted), None)
