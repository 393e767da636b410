"""Between a host and a client that ``http.json`` limits: what it may not do does not get to the groups.

Only connections of such clients pass through here; the calls of all others take no longer way than before.
"""

from contextlib import suppress
from typing import Final

import msgspec

from holdfast.admin.client_rights import ClientRights
from holdfast.admin.request_owners import may_use
from holdfast.groups.call_router import calls_of
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.admin.groups import OrderRefused, decode_order, encode_order
from holdfast.model.calls import (
    Follow,
    FollowHosts,
    Locate,
    Ping,
    RefusalCode,
    Settle,
    Turned,
    decode_to_host,
    encode_message,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ClientId, GroupId
from holdfast.model.versions import LaterKind
from holdfast.net import Connection, Kind, Reason, Receiver, Why, split_number, with_number

ADVICE: Final = "an admin of the domain can allow it in http.json"
UNKNOWN: Final = "this host has not heard of that group yet"


class ClientFilter:
    """Passes on to *host* what the client may do, and refuses the rest. *catalog* returns the groups that the
    host knows; None while it starts."""

    def __init__(self, host: Receiver, rights: ClientRights, catalog: GroupCatalog | None) -> None:
        self._host = host
        self._rights = rights
        self._catalog = catalog

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if self._catalog is None:
            # What this client may call is not known yet. It connects again, like one that came too early.
            connection.close(Reason(Why.DONE, "this host is still starting"))
        elif kind is Kind.CALL:
            refused = self._refusal(payload, self._catalog)
            if refused is None:
                self._host.on_frame(connection, kind, payload)
            else:
                connection.send(Kind.CALL_ANSWER, encode_message(refused))
        elif kind is Kind.GROUP_ORDER:
            number, body = split_number(payload)
            with suppress(LaterKind):  # the host answers that it does not know it
                try:
                    self._rights.check_order(decode_order(body))
                except InvalidRequest as error:
                    answer = encode_order(OrderRefused(code="forbidden", text=str(error), is_final=True))
                    connection.send(Kind.GROUP_ANSWER, with_number(number, answer))
                    return
            self._host.on_frame(connection, kind, payload)
        else:
            raise msgspec.ValidationError(f"a client may not send {kind.name} here")

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._host.on_closed(connection, reason)

    def _refusal(self, payload: bytes, catalog: GroupCatalog) -> Turned | None:
        try:
            return self._judged(decode_to_host(payload), catalog)
        except LaterKind:
            return None  # the host knows it no better, and passes over it

    def _judged(self, message: object, catalog: GroupCatalog) -> Turned | None:
        """The refusal of *message*, if it is refused."""
        who = f"client {self._rights.name}"
        match message:
            case Ping() | FollowHosts():
                return None
            case Locate(frame=frame, name=name, group=group):
                name = name or _name(catalog, group)
                if not name:
                    return Turned(frame, GroupId(0), RefusalCode.UNAVAILABLE, UNKNOWN)
                if self._rights.may_see(name):
                    return None
                said = f"there is no group {name or group!r} that {who} may call: {ADVICE}"
                return Turned(frame, GroupId(0), RefusalCode.NO_SUCH_GROUP, said)
            case Follow(group=group):
                is_seen = self._rights.may_see(_name(catalog, group))
                return None if is_seen else Turned(0, group, RefusalCode.NO_SUCH_GROUP)
            case Settle(frame=frame, group=group, asked_client=client):
                if not self._rights.may_see(_name(catalog, group)):
                    said = f"{who} may not ask this group: {ADVICE}"
                    return Turned(frame, group, RefusalCode.INVALID, said)
                return self._not_own(frame, group, client)
            case asked:
                return self._judged_calls(asked, catalog)

    def _judged_calls(self, asked: object, catalog: GroupCatalog) -> Turned | None:
        """The same of a frame of calls: it goes through whole or not at all."""
        group: GroupId = asked.group  # type: ignore[attr-defined]  # only calls and reads are left
        name = _name(catalog, group)
        frame: int = asked.frame  # type: ignore[attr-defined]
        if not name:
            return Turned(frame, group, RefusalCode.NOT_HERE, UNKNOWN)
        client, calls = calls_of(asked)  # type: ignore[arg-type]
        methods = [call.method for call in calls]
        wrong = [each for each in methods if not self._rights.may_call(name, each)]
        if methods and not wrong:
            return self._not_own(frame, group, client)
        said = f"client {self._rights.name} may not call {wrong[0] if wrong else 'this'} of group {name!r}"
        return Turned(frame, group, RefusalCode.INVALID, f"{said}: {ADVICE}")

    def _not_own(self, frame: int, group: GroupId, client: ClientId) -> Turned | None:
        """The refusal to call or ask under an id that is somebody else's (N4)."""
        if self._rights.has("admin") or may_use(self._rights.name, client):
            return None
        said = f"client {self._rights.name} did not make the calls of {client!r}"
        return Turned(frame, group, RefusalCode.INVALID, said)


def _name(catalog: GroupCatalog, group: GroupId) -> str:
    record = catalog.records.get(group)
    return record.name if record is not None else ""
