"""The domain's wishes, as the orders of people read and change them."""

from typing import Any, Protocol

import msgspec

from holdfast.control.domain_changes import Change
from holdfast.control.domain_state import DomainState
from holdfast.control.ports import Failed, Outcome
from holdfast.model.errors import InvalidRequest
from holdfast.node.wishing import granted


class Wished(Protocol):
    """What :class:`holdfast.node.control.Control` offers."""

    def state(self) -> DomainState: ...

    async def wish(self, change: Change, *, id: str = "") -> Outcome: ...


async def changed(wished: Wished, change: Change, *, id: str = "") -> Any:
    """What *change* is answered with, once it is made. Raises why it was not, or ``OutcomeUnknown``.

    It is tried on what this host knows first: the coordinator may be elsewhere, and what it says of a change
    that cannot be made arrives in words, without the name and the value that was wrong. But the coordinator
    has the word: it may know newer wishes, and whether this very one was granted before.
    """
    mistake: InvalidRequest | None = None
    try:
        change.applied(wished.state())
    except InvalidRequest as error:
        mistake = error
    outcome = await wished.wish(change, id=id)
    if mistake is not None and isinstance(outcome, Failed):
        raise mistake
    return msgspec.msgpack.decode(granted(outcome).reply)
