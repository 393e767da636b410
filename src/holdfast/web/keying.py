"""How an ``Idempotency-Key`` becomes a request id, the same at every host: a repeated key is one request.

A group keeps a reply until its request's expiration, and every copy of a request must carry the same one
(FTC-93). A door remembers nothing, so both follow from the key and the group's time alone. Time is cut into
windows, for each key at another place; within a window a key is one id with one expiration. A key that comes
again soon after its window has ended may have been used in the one before: there its outcome is asked for
first, which settles it (X3), and only if it never ran is the new id used. Whoever is behind the times then
finds the old id settled or expired, and learns the group's time with the refusal. So a key that is repeated
within ``KEEP_S`` of its first use is the same request, exactly; one repeated later than ``WINDOW_S + KEEP_S``
is a new one; in between it depends on where the window ends.

*Without windows* (an expiration of now + KEEP_S): a second copy, sent just before the first one's reply is
forgotten and held up on its way, would arrive as a fresh request of its own later expiration, and run.

These numbers are part of the ids: hosts that differed in them would not agree on what is a repetition.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from holdfast.model.calls import RequestId
from holdfast.model.ids import ClientId, GroupId

KEEP_S: Final = 1800
"""For so long at least a repeated key is the same request."""
WINDOW_S: Final = 7200
"""Longer lets members keep replies longer, shorter lets more calls ask for the window before: one in four."""
SLACK_S: Final = 300
"""By how much hosts may differ on the group's time, and a call may last, at the edges."""
NUMBER: Final = 1
"""The only number of its client: each key is a client of its own, in the group's table of requests."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A key at one moment of a group's time."""

    request: RequestId
    """The id to call under."""
    before: RequestId | None
    """The id under which it may have been called in the window before, until that has expired: to be settled
    first."""
    after: RequestId | None
    """The id under which others may call it already: hosts differ a little on the time."""


def keyed(caller: str, group: GroupId, key: str, time_s: int) -> Keyed:
    """What *key* of *caller* stands for at *time_s* of the group's time."""
    digest = sha256("\0".join((caller, str(group), key)).encode()).hexdigest()
    offset_s = int(digest[:8], 16) % WINDOW_S
    window, into_s = divmod(time_s + offset_s, WINDOW_S)

    def in_window(window: int) -> RequestId:
        ends_s = (window + 1) * WINDOW_S - offset_s
        client = ClientId(f"http-{digest[8:40]}-{window}")
        return RequestId(group, client, NUMBER, ends_s + KEEP_S + 2 * SLACK_S)

    return Keyed(
        in_window(window),
        before=in_window(window - 1) if into_s < KEEP_S + 3 * SLACK_S else None,
        after=in_window(window + 1) if into_s >= WINDOW_S - SLACK_S else None,
    )
