"""The domain's wishes, as the orders of people read and change them."""

from typing import Any, Protocol

import msgspec

from holdfast.control.domain_changes import Change
from holdfast.control.domain_state import DomainState
from holdfast.control.ports import Outcome
from holdfast.node.wishing import granted


class Wished(Protocol):
    """What :class:`holdfast.node.control.Control` offers."""

    def state(self) -> DomainState: ...

    async def wish(self, change: Change) -> Outcome: ...


async def changed(wished: Wished, change: Change) -> Any:
    """What *change* is answered with, once it is made. Raises why it was not, or ``OutcomeUnknown``.

    It is tried on what this host knows first: the coordinator may be elsewhere, and what it says of a change
    that cannot be made arrives in words, without the name and the value that was wrong.
    """
    change.applied(wished.state())
    return msgspec.msgpack.decode(granted(await wished.wish(change)).reply)
