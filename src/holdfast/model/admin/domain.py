"""Requests and answers about the domain's own state (T4), its updates, and indexes.

An administrator can see which desired state a host holds, and let the domain continue from one host's copy.
The rules of :mod:`.groups`, which includes these messages, apply here too.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.ids import HostId


class InspectDomain(Struct, frozen=True, kw_only=True, tag="inspect_domain"):
    """Asks which desired state of the domain the asked host holds."""


class RecoverDomain(Struct, frozen=True, kw_only=True, tag="recover_domain"):
    """Let the domain continue from the desired state that the asked host holds. Requires an admin who has
    seen that this is the state of *cas*, and that nobody holds the committed state any more."""

    cas: int


class DomainInspected(Struct, frozen=True, kw_only=True, tag="domain_inspected"):
    """The desired state that one host holds. Scripts read this interface: it changes only by additions."""

    host: HostId
    role: str
    """``coordinator``, ``replica``, ``onlooker``; or ``bootstrap`` while it has none of these."""
    cas: int
    """The CAS of the desired state that the host holds."""
    committed_cas: int
    """The CAS of the committed desired state."""
    coordinator: HostId
    """The coordinator that the host follows; empty if none."""
    term: int


DomainOrder = InspectDomain | RecoverDomain


PARTITIONS_DEFAULT: Final = 8
REPLICAS_OF_PARTITION_DEFAULT: Final = 1
IDS_MAX: Final = 1_000
TRANSACTIONS_SHOWN_MAX: Final = 1_000

Text = Annotated[str, Meta(min_length=1, max_length=256)]
Ids = Annotated[tuple[int, ...], Meta(min_length=1, max_length=IDS_MAX)]


class CreateIndex(Struct, frozen=True, kw_only=True, tag="create_index"):
    """Create an index, placed on the live hosts. Requires an admin."""

    name: Text
    bucket: Text
    using: Text
    expressions: tuple[str, ...] = ()
    """What the index is on; empty for the primary index of a bucket."""
    language: Text = "json-pointer"
    partitions: int = PARTITIONS_DEFAULT
    replicas: int = REPLICAS_OF_PARTITION_DEFAULT
    """The number of replicas of each partition, besides its master."""
    nonce: str = ""
    """Chosen by the requester: the same request sent again creates only one index."""


class DropIndexes(Struct, frozen=True, kw_only=True, tag="drop_indexes"):
    """Drop all of these indexes, or none if one does not exist. Requires an admin."""

    ids: Ids


class ListIndexes(Struct, frozen=True, kw_only=True, tag="list_indexes"):
    """Asks which indexes exist, as far as the answering host knows."""


class ListTransactions(Struct, frozen=True, kw_only=True, tag="list_transactions"):
    """Asks for the latest updates of the domain's state, as the authority keeps them."""

    limit: Annotated[int, Meta(ge=1, le=TRANSACTIONS_SHOWN_MAX)] = 20


class NodeShown(Struct, frozen=True, kw_only=True):
    """A host that has a part of an index, in the words of the source (IM-40). An interface: it changes only
    by additions."""

    name: HostId
    connectionAddr: str
    role: tuple[str, ...]
    """All roles of the host."""


class IndexShown(Struct, frozen=True, kw_only=True):
    """One index. Scripts read this interface: it changes only by additions."""

    id: int
    name: str
    bucket: str
    using: str
    expressions: tuple[str, ...]
    language: str
    is_primary: bool
    is_active: bool
    """Whether its hosts have built it."""
    partitions: int
    replicas: int
    hosts: tuple[HostId, ...]
    """The hosts that have a part of it."""
    servers: tuple[NodeShown, ...] = ()
    """The same hosts, with what is known of them."""
    partition_map: tuple[tuple[int, ...], ...] = ()
    """Places in *servers* for each partition: its master's, then those of its replicas, then -1 (IM-43)."""


class IndexList(Struct, frozen=True, kw_only=True, tag="indexes"):
    indexes: tuple[IndexShown, ...]
    """The indexes, by number."""
    term: int = 0
    cas: int = 0
    """The CAS of the state from which this was read."""


class TransactionShown(Struct, frozen=True, kw_only=True):
    """One update of the domain's state. An interface: it changes only by additions."""

    cas: int
    term: int
    status: str
    """``initial``, ``commit`` or ``rollback``."""
    participants: tuple[HostId, ...]


class TransactionList(Struct, frozen=True, kw_only=True, tag="transactions"):
    transactions: tuple[TransactionShown, ...]
    """The updates, the newest last."""
    coordinator: HostId = HostId("")
    """The coordinator; empty while the answering host knows none."""
    term: int = 0
    cas: int = 0


IndexOrder = CreateIndex | DropIndexes | ListIndexes | ListTransactions
