"""What named clients may do, at every door: the groups and methods that ``http.json`` lists for them.

A client is known by its certificate, its key or its token. Programs that know the domain's secret belong to
the domain's own user and are not limited here. As long as ``http.json`` names no client, any client with a
key or a certificate may do what its role may; as soon as it names one, only those that it names come in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from holdfast.model.admin.groups import Order, Question
from holdfast.model.errors import InvalidRequest
from holdfast.net import PeerIdentity, ProvenBy, Reason, Role, Why

Grade = Literal["client", "reader", "admin"]
"""What a caller may do: call what is listed; also read everything; do everything."""

_RANKS: Final[dict[Grade, int]] = {"client": 1, "reader": 2, "admin": 3}


class Client(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One client and what it may do."""

    token_sha256: str = ""
    """The hash of its token, in hexadecimal digits; without it, only its certificate or its key identifies
    it."""
    grade: Grade = "client"
    calls: dict[str, tuple[str, ...]] = {}
    """Which methods of which groups: patterns of names, where ``*`` stands for anything."""


@dataclass(frozen=True, slots=True)
class ClientRights:
    """An identified caller and what it may do."""

    name: str
    grade: Grade
    calls: Mapping[str, tuple[str, ...]]

    def has(self, grade: Grade) -> bool:
        return _RANKS[self.grade] >= _RANKS[grade]

    def may_call(self, group: str, method: str) -> bool:
        if self.grade == "admin":
            return True
        return any(
            fnmatchcase(group, groups) and any(fnmatchcase(method, each) for each in methods)
            for groups, methods in self.calls.items()
        )

    def may_see(self, group: str) -> bool:
        return self.has("reader") or any(fnmatchcase(group, groups) for groups in self.calls)

    def check_order(self, order: Order) -> None:
        """Raise ``InvalidRequest`` if this client may not give *order*: reading is for readers, changing for
        admins, as over HTTP."""
        needed: Grade = "reader" if isinstance(order, Question) else "admin"
        if not self.has(needed):
            raise InvalidRequest(
                f"that is for grade {needed}; client {self.name} has {self.grade}: "
                "an admin of the domain can allow it in http.json"
            )


class ClientRules:
    """The clients that ``http.json`` names; None if it cannot be read, and then no client comes in."""

    def __init__(self, clients: Mapping[str, Client] | None) -> None:
        self._clients = clients

    def refusal(self, peer: PeerIdentity, by: ProvenBy) -> Reason | None:
        """Why the native door does not admit *peer*, if so."""
        if peer.role is not Role.CLIENT or by is ProvenBy.SECRET or self._clients == {}:
            return None
        if self._clients is None:
            return Reason(Why.REFUSED, "http.json, which says what clients may do, cannot be read here")
        if peer.id not in self._clients:
            return Reason(Why.REFUSED, f"http.json names clients, and {peer.id} is not among them")
        return None

    def rights(self, peer: PeerIdentity, by: ProvenBy) -> ClientRights | None:
        """What an admitted *peer* may do; None if only its role limits it."""
        client = (self._clients or {}).get(peer.id)
        if peer.role is not Role.CLIENT or by is ProvenBy.SECRET or client is None:
            return None
        return ClientRights(peer.id, client.grade, client.calls)


NO_RULES: Final = ClientRules({})
"""Only the roles of clients limit them."""
