"""A call from one group to another, as it travels: the same to the byte, whoever sends it (PROTOCOL E3).

Its id is made of the calling group, the calling request's id and the number of the call within it, never of a
position or an epoch: those may differ when another primary makes the call again.
"""

import hashlib
from typing import Final

from holdfast.model.calls import CLIENT_CHARACTERS_MAX, Request
from holdfast.model.ids import ClientId, GroupId
from holdfast.styles.effects import Outgoing
from holdfast.styles.operation import Call, Sent, encode_calls, traced

DIGEST_BYTES: Final = 24


def sent_by(group: GroupId, outgoing: Outgoing) -> Sent:
    """The frame of a call that *group* makes. Calls of one operation are made one after the other, so the
    called group need keep no reply to those before; its expiration is the operation's own."""
    call = Call(outgoing.call, outgoing.method, outgoing.arguments, outgoing.expiration_s)
    client = client_of(group, outgoing.caller)
    calls = encode_calls([traced(call, outgoing.traceparent)])
    return Sent(client, outgoing.call, outgoing.expiration_s, calls, outgoing.chain)


def client_of(group: GroupId, caller: Request) -> ClientId:
    """The client that one operation of *group* is to the groups it calls."""
    outer = f"{caller.client}:{caller.number}"
    whole = f"{group}:{outer}"
    if len(whole) > CLIENT_CHARACTERS_MAX:
        # Each call within a call makes it longer.
        whole = f"{group}:{hashlib.blake2b(outer.encode(), digest_size=DIGEST_BYTES).hexdigest()}"
    return ClientId(whole)
