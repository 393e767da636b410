"""Whom a server admits, and to what: each names the roles for every kind of frame that it takes.

What a table does not name nobody may send. A role that may send nothing at all is refused in the handshake.
With TLS the role is the certificate's; without it, on loopback, it is what the peer says of itself.
"""

from collections.abc import Mapping
from typing import Final

from holdfast.net.handshake import Role
from holdfast.net.kind import Kind

Admission = Mapping[Kind, frozenset[Role]]

_HOSTS: Final = frozenset({Role.HOST})
_CALLERS: Final = frozenset({Role.HOST, Role.CLIENT, Role.ADMIN})

AUTHORITY_ADMITS: Final[Admission] = {
    # Whoever asks here may read and write every key: who is primary, what groups are of, where they are.
    Kind.AUTHORITY_ASK: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}
AGENT_ADMITS: Final[Admission] = {
    Kind.AGENT_REPORT: _HOSTS,
    Kind.STATUS_REQUEST: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}
HEART_ADMITS: Final[Admission] = {Kind.HEARTBEAT: _HOSTS}
HOST_ADMITS: Final[Admission] = {
    Kind.SEQUENCE: _HOSTS,
    Kind.CONTROL: _HOSTS,
    Kind.CALL: _CALLERS,
    # Each order names its own roles besides (node.permission).
    Kind.GROUP_ORDER: _CALLERS,
    Kind.STATUS_REQUEST: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}


def roles_in(admits: Admission) -> frozenset[Role]:
    """Those that may send anything at all."""
    return frozenset[Role]().union(*admits.values())


def kinds_of(role: Role, admits: Admission) -> frozenset[Kind]:
    """Those that *role* may send."""
    return frozenset(kind for kind, roles in admits.items() if role in roles)
