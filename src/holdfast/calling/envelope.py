"""The frames of one group's requests: what every one of them says besides the requests."""

from typing import Final

import msgspec

from holdfast.calling.pending import Pending
from holdfast.model.calls import Calls, Nested, Reads, Seen, Settle
from holdfast.model.ids import ClientId
from holdfast.model.reference import Reference
from holdfast.styles.operation import LaneSent, Sent, encode_calls

_encode: Final = msgspec.msgpack.Encoder().encode


def calls_frame(
    frame: int,
    reference: Reference,
    seen: Seen,
    client: ClientId,
    requests: list[Pending],
    *,
    floor: int,
    horizon_s: int,
) -> Calls:
    """Calls to be ordered. What the group keeps of them is encoded here, once for all members."""
    calls = encode_calls([each.call for each in requests])
    if requests[0].lane is None:
        sent = Sent(client, floor, horizon_s, calls)
    else:
        sent = LaneSent(client, floor, horizon_s, calls, is_ordered=True)
    return Calls(frame, reference.group, reference.version, seen, msgspec.Raw(_encode(sent)))


def aside_frame(
    frame: int, reference: Reference, seen: Seen, client: ClientId, request: Pending
) -> Settle | Reads | Nested:
    """A question about a request, a group's call to another, or a read of a state that may be old."""
    if request.relayed is not None:
        sent = msgspec.Raw(_encode(request.relayed))
        return Nested(frame, reference.group, reference.version, seen, request.number, sent)
    about = request.asks_about
    if about is None:
        calls = encode_calls([request.call])
        return Reads(frame, reference.group, reference.version, seen, request.stale_ms or 0, client, calls)
    return Settle(
        frame,
        reference.group,
        reference.version,
        seen,
        request.number,
        about.client,
        about.number,
        about.expiration_s,
        request.withdraws,
    )
