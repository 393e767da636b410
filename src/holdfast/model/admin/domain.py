"""What may be ordered about the domain's own state: who holds what, and going on from one (T4).

What may be ordered about indexes, and what is known of them and of the updates of the domain's state.

Part of :mod:`.groups`, whose rules hold here too.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.model.ids import HostId


class InspectDomain(Struct, frozen=True, kw_only=True, tag="inspect_domain"):
    """What does the host that is asked hold of the domain's wishes?"""


class RecoverDomain(Struct, frozen=True, kw_only=True, tag="recover_domain"):
    """Let the domain go on from the wishes that the host that is asked holds. From an admin who has seen that
    these are those of *cas*, and that nobody holds the committed ones any more."""

    cas: int


class DomainInspected(Struct, frozen=True, kw_only=True, tag="domain_inspected"):
    """An interface: scripts read it, so it changes only by adding."""

    host: HostId
    role: str
    """``coordinator``, ``replica``, ``onlooker``; or ``bootstrap`` while it has none of these."""
    cas: int
    """Of the wishes that it holds."""
    committed_cas: int
    """Of those that count."""
    coordinator: HostId
    """Whom it follows; empty when nobody."""
    term: int


DomainOrder = InspectDomain | RecoverDomain


PARTITIONS_DEFAULT: Final = 8
REPLICAS_OF_PARTITION_DEFAULT: Final = 1
IDS_MAX: Final = 1_000
TRANSACTIONS_SHOWN_MAX: Final = 1_000

Text = Annotated[str, Meta(min_length=1, max_length=256)]
Ids = Annotated[tuple[int, ...], Meta(min_length=1, max_length=IDS_MAX)]


class CreateIndex(Struct, frozen=True, kw_only=True, tag="create_index"):
    """Let there be an index, laid out on the hosts that live. From an admin."""

    name: Text
    bucket: Text
    using: Text
    expressions: tuple[str, ...] = ()
    """What it is on; empty for the primary index of a bucket."""
    language: Text = "json-pointer"
    partitions: int = PARTITIONS_DEFAULT
    replicas: int = REPLICAS_OF_PARTITION_DEFAULT
    """Of each partition, beside its master."""
    nonce: str = ""
    """Of whoever orders it: the same order sent again makes one index."""


class DropIndexes(Struct, frozen=True, kw_only=True, tag="drop_indexes"):
    """Let all of these be no more, or none when one is not there. From an admin."""

    ids: Ids


class ListIndexes(Struct, frozen=True, kw_only=True, tag="list_indexes"):
    """Which indexes are there, as the host that answers knows?"""


class ListTransactions(Struct, frozen=True, kw_only=True, tag="list_transactions"):
    """The latest updates of the domain's state, as the authority keeps them."""

    limit: Annotated[int, Meta(ge=1, le=TRANSACTIONS_SHOWN_MAX)] = 20


class IndexShown(Struct, frozen=True, kw_only=True):
    """One index. An interface: scripts read it, so it changes only by adding."""

    id: int
    name: str
    bucket: str
    using: str
    expressions: tuple[str, ...]
    language: str
    is_primary: bool
    is_active: bool
    """Its hosts have built it."""
    partitions: int
    replicas: int
    hosts: tuple[HostId, ...]
    """Those that have a part of it."""


class IndexList(Struct, frozen=True, kw_only=True, tag="indexes"):
    indexes: tuple[IndexShown, ...]
    """By number."""
    term: int = 0
    cas: int = 0
    """Of the state that this was read in."""


class TransactionShown(Struct, frozen=True, kw_only=True):
    """One update. An interface: changes by adding."""

    cas: int
    term: int
    status: str
    """``initial``, ``commit`` or ``rollback``."""
    participants: tuple[HostId, ...]


class TransactionList(Struct, frozen=True, kw_only=True, tag="transactions"):
    transactions: tuple[TransactionShown, ...]
    """The newest last."""
    coordinator: HostId = HostId("")
    """Empty while none is known to the host that answers."""
    term: int = 0
    cas: int = 0


IndexOrder = CreateIndex | DropIndexes | ListIndexes | ListTransactions
