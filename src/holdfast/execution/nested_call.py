"""A call from one group to another, as it travels: the same to the byte, whoever sends it (E3).

Its id is made of the calling group, the calling request's id and the number of the call within it, never of a
position or an epoch: those may differ when another primary makes the call again.
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
"""Ends the caller's part in the names of clients that are senders."""
ABROAD: Final = "@"
"""Begins the names of clients that are groups of other domains, and of no others."""


def sent_by(group: GroupId, outgoing: Outgoing) -> Sent:
    """The frame of a call that *group* makes. Calls of one operation are made one after the other, so the
    called group need keep no reply to those before; its expiration is the operation's own."""
    return _sent(str(group), outgoing, outgoing.chain)


def sent_abroad(home: str, made: Nonce, outgoing: Outgoing, there: str) -> Sent:
    """The same to a group of the domain *there*, by a group of the domain *home*. *made*: the mark under
    which that one was made; domains may have the same name and number their groups alike."""
    return _sent(f"{ABROAD}{home}:{made}", outgoing, chain_abroad(outgoing.chain, home, there))


def is_from_abroad(client: ClientId) -> bool:
    return client.startswith(ABROAD)


def client_of(group: GroupId, caller: Request) -> ClientId:
    """The client that one operation of *group* is to the groups it calls."""
    return _client(str(group), caller)


def _sent(caller: str, outgoing: Outgoing, chain: tuple[str, ...]) -> Sent:
    call = Call(outgoing.call, outgoing.method, outgoing.arguments, outgoing.expiration_s)
    calls = encode_calls([traced(call, outgoing.traceparent)])
    if outgoing.send:
        # Nobody waits for it, so it makes no circle; and those of one operation are numbered by themselves.
        client = _client(f"{caller}{SENT}", outgoing.caller)
        return Sent(client, outgoing.call, outgoing.expiration_s, calls)
    client = _client(caller, outgoing.caller)
    return Sent(client, outgoing.call, outgoing.expiration_s, calls, chain, outgoing.root)


def _client(group: str, caller: Request) -> ClientId:
    outer = f"{caller.client}:{caller.number}"
    whole = f"{group}:{outer}"
    if len(whole) > CLIENT_CHARACTERS_MAX:
        # Each call within a call makes it longer.
        whole = f"{group}:{hashlib.blake2b(outer.encode(), digest_size=DIGEST_BYTES).hexdigest()}"
    return ClientId(whole)
