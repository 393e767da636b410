"""How many bytes a group keeps for calls made under a key of their caller's, and for whom (X2).

A client of ours tells which replies it has received, and those go at once. Whoever calls under an
``Idempotency-Key`` cannot: its reply stays until the key expires, for hours, in the memory and in every
checkpoint of every member. Therefore what is kept this way is counted, for each caller and for all together,
and a primary refuses new keys beyond a bound (:func:`holdfast.styles.admission.check_kept`). What is kept
already is kept as long as was promised.

*Without it:* one caller fills the memory of all hosts of a group by using a new key for each call.
"""

from typing import Final

from holdfast.model.ids import ClientId

_PREFIX: Final = "http-"
_CALLER_CHARACTERS: Final = 16

ENTRY_BYTES: Final = 512
"""What a key costs besides its reply: the client, its entry and its place in two calendars."""


def keyed_client(caller: str, key: str, window: int) -> ClientId:
    """The client that stands for one key; *caller* and *key* are hexadecimal digests."""
    return ClientId(f"{_PREFIX}{caller[:_CALLER_CHARACTERS]}-{key}-{window}")


def caller_of(client: ClientId) -> str:
    """The digest of the caller whose key this client stands for; empty for any other client."""
    end = len(_PREFIX) + _CALLER_CHARACTERS
    is_keyed = client.startswith(_PREFIX) and client[end : end + 1] == "-"
    return client[len(_PREFIX) : end] if is_keyed else ""


class KeyedReplies:
    """The bytes kept for calls under keys, by caller."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[str, int] = {}

    def of(self, caller: str) -> int:
        return self._of.get(caller, 0)

    def add(self, caller: str, count: int) -> None:
        """Count *count* more bytes, or fewer if it is negative."""
        self.total += count
        left = self._of.get(caller, 0) + count
        if left > 0:
            self._of[caller] = left
        else:
            self._of.pop(caller, None)
