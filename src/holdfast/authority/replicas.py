"""The numbers of hosts in CSNs: 16 bits, issued once to each host and never again (S1).

A record is never removed: a number that was used stands in the stamps of operations for ever.
"""

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.outcome import ATTEMPTS_MAX, Contended, InDoubt, Seen, answering, change, put, read
from holdfast.authority.recipe import Recipe
from holdfast.model.csn import REPLICA_MAX
from holdfast.model.errors import Overloaded
from holdfast.model.ids import HostId, Nonce, ReplicaId


class ReplicaRecord(msgspec.Struct, frozen=True, kw_only=True, tag="replica"):
    """A host's number."""

    host: HostId
    replica: ReplicaId
    nonce: Nonce


class ReplicaCounter(msgspec.Struct, frozen=True, kw_only=True, tag="replica_counter"):
    """The highest number ever issued."""

    last: ReplicaId
    nonce: Nonce


@answering
def ensure_replica(host: HostId, *, nonce: Nonce) -> Recipe[Seen[ReplicaRecord] | Contended | InDoubt]:
    """The number of *host*: the one it has, or the next. Raises ``Overloaded`` when all are given away."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.replica(host), ReplicaRecord)
        if found.value is not None:
            return Seen(found.key, found.value, found.modified)
        counter = yield from read(keys.REPLICA_COUNTER, ReplicaCounter)
        replica = ReplicaId(counter.value.last + 1 if counter.value is not None else 1)
        if replica > REPLICA_MAX:
            raise Overloaded(f"all {REPLICA_MAX} numbers of hosts are given away")
        record = ReplicaRecord(host=host, replica=replica, nonce=nonce)
        result = yield from change(
            [found.unchanged(), counter.unchanged()],
            [put(found.key, record), put(counter.key, ReplicaCounter(last=replica, nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, record, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended("the counter of hosts in CSNs")
