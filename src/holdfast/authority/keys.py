"""All keys at the authority: the only module that spells them.

Numbers in keys are zero-padded, so that the keys sort like the numbers. A backend may put the prefix of its
domain in front of every key.
"""

from typing import Final

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId, LeaseId, StoreId

NAME_BYTES_MAX: Final = 400
"""The longest name that leaves room for the rest of the key within the contract's KEY_BYTES_MAX."""

IDENTITY: Final = "authority/identity"
SEAT: Final = "authority/seat"
"""Whether this authority serves the domain, and where the domain is if it does not (A8)."""
MOVED_LEASES: Final = "authority/leases/"
"""Which lease continues one of the authority from which the domain came."""
MOVED_REVISIONS: Final = "authority/revisions/"
"""The revisions that keys had at the authority from which the domain came."""
SESSIONS: Final = "sessions/"
NAMES: Final = "names/"
GROUPS: Final = "groups/"
VIEWS: Final = "views/"
DIRECTORIES: Final = "directories/"
STREAMS: Final = "streams/"

MACHINES: Final = "machines/"
MACHINE_GUARD: Final = "guards/machines"
NAME_GUARD: Final = "guards/names"
GROUP_GUARD: Final = "guards/groups"
DIRECTORY_GUARD: Final = "guards/directories"
STREAM_GUARD: Final = "guards/streams"
GROUP_COUNTER: Final = "counters/groups"
STREAM_COUNTER: Final = "counters/streams"
REPLICA_COUNTER: Final = "counters/replicas"

CONTROL: Final = "control/"
"""The prefix of all that an election reads in one snapshot; the transaction log is therefore elsewhere."""
TERM: Final = "control/term"
LAST_TRANSACTION: Final = "control/transaction"
COMMITTED: Final = "control/committed"
MEMBERSHIP_GUARD: Final = "control/guard"
MEMBERS: Final = "control/members/"
TRANSACTION_LOG: Final = "transactions/"


def host(host: HostId) -> str:
    """The key of the host's highest incarnation, which outlives every session."""
    return f"hosts/{_word(host)}"


def session(host: HostId) -> str:
    return SESSIONS + _word(host)


def directory(suffix: str) -> str:
    return DIRECTORIES + _word(suffix)


def stream(name: str) -> str:
    return STREAMS + _word(name)


def machine(machine: str) -> str:
    return MACHINES + _word(machine)


def name(name: str) -> str:
    return NAMES + _word(name)


def store(store: StoreId) -> str:
    return f"stores/{_word(store)}"


def group(group: GroupId) -> str:
    return f"{GROUPS}{group:020d}"


def view(group: GroupId) -> str:
    return f"{VIEWS}{group:020d}"


def history(group: GroupId) -> str:
    return f"history/{group:020d}"


def ended_on(host: HostId) -> str:
    """The prefix of the notes that tell *host* about removed groups."""
    return f"ended/{_word(host)}/"


def ended(host: HostId, group: GroupId) -> str:
    return f"{ended_on(host)}{group:020d}"


def group_name(name: str) -> str:
    return f"group-names/{_word(name)}"


def replica(host: HostId) -> str:
    """The key of the host's number in CSNs, which outlives every session."""
    return f"replicas/{_word(host)}"


def member(host: HostId) -> str:
    return MEMBERS + _word(host)


def transaction(cas: int) -> str:
    return f"{TRANSACTION_LOG}{cas:020d}"


def moved_lease(lease: LeaseId) -> str:
    return f"{MOVED_LEASES}{lease:020d}"


def moved_revisions(number: int) -> str:
    return f"{MOVED_REVISIONS}{number:020d}"


def is_of_moves(key: str) -> bool:
    """Whether *key* is about moves of the domain, and not of the domain itself."""
    return key == SEAT or key.startswith((MOVED_LEASES, MOVED_REVISIONS))


def is_word(text: str) -> bool:
    """Whether *text* can be part of a key."""
    return bool(text) and len(text.encode()) <= NAME_BYTES_MAX and "\0" not in text


def _word(text: str) -> str:
    if not is_word(text):
        raise InvalidRequest(f"not a name of 1 to {NAME_BYTES_MAX} bytes: {text[:40]!r}")
    return text
