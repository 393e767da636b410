"""What the server says of a replica below ``cn=config``: how far it is, and its conflicts.

``cn=replica,cn=config`` has the vector and how many conflicts there are, so that a monitor needs one read.
With several suffixes there is such an entry for each below it, and it says nothing itself.
Below ``cn=conflicts,cn=config`` stands an entry for every conflict, with both sides. It is resolved there, by
any LDAP client: ``conflictResolution: kept`` leaves everything as it is, ``lost`` takes the other side.
"""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.directory.conflict_text import KEPT, chosen, find_conflict, told
from holdfast.directory.dn import Dn, escaped
from holdfast.directory.operations import Change, DeleteRequest, ModificationKind, ModifyRequest, Scope
from holdfast.directory.replica.replica import Replica
from holdfast.directory.replica.view import Attributes
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.naming_context import NamingContext
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest

REPLICA_DN: Final = "cn=replica,cn=config"
CONFLICTS_DN: Final = "cn=conflicts,cn=config"
RESOLUTION: Final = "conflictresolution"
SHOWN_MAX: Final = 10_000
"""How many conflicts are entries at once; with more, resolve some to see the others."""


class ConfigEntries:
    """The entries of the replicas behind one door, by name, as they are now."""

    def __init__(self, contexts: Callable[[], Sequence[NamingContext]]) -> None:
        self._contexts = contexts

    def entries(
        self, administered: Sequence[NamingContext], *, has_conflicts: bool = True
    ) -> dict[str, Attributes]:
        """User attributes by name, parents first: of the suffixes that the client administers; without the
        conflicts for a search that cannot find them, because there may be thousands."""
        is_one = len(self._contexts()) == 1
        entries: dict[str, Attributes] = {}
        if not is_one:
            entries[REPLICA_DN] = {"objectClass": (b"top", b"extensibleObject"), "cn": (b"replica",)}
        for each in administered:
            name = each.suffix.text
            dn = REPLICA_DN if is_one else f"cn={escaped(name.encode())},{REPLICA_DN}"
            entries[dn] = _about(each, "replica" if is_one else name)
        entries[CONFLICTS_DN] = {"objectClass": (b"top", b"extensibleObject"), "cn": (b"conflicts",)}
        for each in administered if has_conflicts else ():
            entries |= _conflicts(each.replica)
        return entries

    def resolve(
        self,
        request: Change,
        dn: Dn,
        administered: Sequence[NamingContext],
        committed: Callable[[NamingContext], Callable[[Csn], None]],
    ) -> Csn | None:
        """Resolve the conflict that *dn* names, as the request says; None if it names none. Deleting its
        entry keeps things as they are."""
        if len(dn) != 3 or len(dn.rdn) != 1 or dn.rdn[0].attribute.lower() != "conflictid":
            return None
        wanted = dn.rdn[0].value.decode("utf-8", "replace")
        keep = self._choice(request)
        for each in administered:
            conflict = find_conflict(each.replica.conflicts(), wanted)
            if conflict is None:
                continue
            try:
                return each.replica.settle(conflict, committed(each), keep=keep)
            except InvalidRequest as error:
                if isinstance(error, DirectoryError):
                    raise
                raise DirectoryError(ResultCode.UNWILLING_TO_PERFORM, str(error)) from error
        raise DirectoryError(ResultCode.NO_SUCH_OBJECT, "there is no such conflict, or no longer")

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


def may_find_conflicts(dn: Dn, scope: Scope) -> bool:
    """Whether a search from *dn*, below ``cn=config``, may find conflicts."""
    if len(dn) == 1:
        return scope is not Scope.BASE and scope is not Scope.ONE_LEVEL
    # However else a client spells the name of the conflicts, it is none of these.
    return all(each.value.lower() not in (b"replica", b"csngenerator") for each in dn.rdns[-2])


def _about(context: NamingContext, name: str) -> Attributes:
    replica = context.replica
    return {
        "objectClass": (b"top", b"replica"),
        "cn": (name.encode(),),
        "replicaSuffix": (replica.suffix.encode(),),
        "replicaID": (str(replica.id).encode(),),
        "replicaVector": (replica.vector.text().encode(),),
        "conflictCount": (str(len(replica.conflicts())).encode(),),
        "csnCount": (_counts(context).encode(),),
    }


def _conflicts(replica: Replica) -> dict[str, Attributes]:
    entries: dict[str, Attributes] = {}
    snapshot = replica.snapshot()
    try:
        for text in told(replica.conflicts()[:SHOWN_MAX], snapshot):
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


def _counts(context: NamingContext) -> str:
    """What became of the CSNs that this process gave: assigned is the sum of the others (CSN-50)."""
    given, times = context.replica.generator.assignments, context.times
    return (
        f"assigned={given.assigned} committed={given.committed} aborted={given.aborted} "
        f"in_flight={given.in_flight} callback_failures={given.callback_failures} "
        f"median_ms={1000 * times.quantile(0.5):.3f} p99_ms={1000 * times.quantile(0.99):.3f}"
    )
