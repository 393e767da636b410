"""Encodes a call from one group to another: byte for byte the same, whichever member sends it (E3).

The call's id is built from the calling group, the calling request's id and the index of the call within it,
never from a position or an epoch: those may differ when another primary makes the call again.
"""

import hashlib
from typing import Final

from holdfast.execution.effects import Outgoing
from holdfast.execution.records import Call, Sent, encode_calls, traced
from holdfast.model.calls import CLIENT_CHARACTERS_MAX, Request
from holdfast.model.ids import ClientId, GroupId, Nonce
from holdfast.model.reference import chain_abroad

DIGEST_BYTES: Final = 24
SENT: Final = ">"
"""Ends the caller's part in the client ids of one-way senders."""
ABROAD: Final = "@"
"""Starts the client ids of groups of other domains, and no other client ids."""


def sent_by(group: GroupId, outgoing: Outgoing) -> Sent:
    """Return the frame of a call that *group* makes. An operation makes its calls one after the other, so the
    called group need not keep replies to earlier ones. Its expiration follows from the operation's."""
    return _sent(str(group), outgoing, outgoing.chain)


def sent_abroad(home: str, made: Nonce, outgoing: Outgoing, there: str) -> Sent:
    """Return the frame of a call from a group of the domain *home* to a group of the domain *there*. *made*
    is the nonce under which *home* was created: domains may have equal names and equal group numbers."""
    return _sent(f"{ABROAD}{home}:{made}", outgoing, chain_abroad(outgoing.chain, home, there))


def is_from_abroad(client: ClientId) -> bool:
    return client.startswith(ABROAD)


def client_of(group: GroupId, caller: Request) -> ClientId:
    """The client id that one operation of *group* uses for the groups it calls."""
    return _client(str(group), caller)


def _sent(caller: str, outgoing: Outgoing, chain: tuple[str, ...]) -> Sent:
    call = Call(outgoing.call, outgoing.method, outgoing.arguments, outgoing.expiration_s)
    calls = encode_calls([traced(call, outgoing.traceparent)])
    if outgoing.send:
        # No operation waits for a one-way send, so it cannot close a cycle. The sends of an operation have
        # their own numbers.
        client = _client(f"{caller}{SENT}", outgoing.caller)
        return Sent(client, outgoing.call, outgoing.expiration_s, calls)
    client = _client(caller, outgoing.caller)
    return Sent(client, outgoing.call, outgoing.expiration_s, calls, chain, outgoing.root)


def _client(group: str, caller: Request) -> ClientId:
    outer = f"{caller.client}:{caller.number}"
    whole = f"{group}:{outer}"
    if len(whole) > CLIENT_CHARACTERS_MAX:
        # Every level of nesting makes the id longer.
        whole = f"{group}:{hashlib.blake2b(outer.encode(), digest_size=DIGEST_BYTES).hexdigest()}"
    return ClientId(whole)
