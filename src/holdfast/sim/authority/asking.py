"""The authority of a simulated domain, as its processes ask it and as checkers look into it."""

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

import msgspec

from holdfast.authority.client import AuthorityClient, ClientConfig
from holdfast.authority.contract import Result, WatchEvent
from holdfast.model.units import MILLISECOND
from holdfast.sim.node import NodePorts
from holdfast.sim.world import World

AUTHORITY: Final = "authority"
"""The node that it runs on."""
IMPATIENT: Final = ClientConfig(deadline_ns=600 * MILLISECOND)

Kind = TypeVar("Kind")


def authority_client(
    ports: NodePorts,
    on_authority: Callable[[Hashable, Result], None],
    on_watch: Callable[[Hashable, WatchEvent], None],
    config: ClientConfig = IMPATIENT,
) -> AuthorityClient:
    """The production client, on the ports of one process."""
    return AuthorityClient(
        server=AUTHORITY,
        clock=ports.clock,
        timers=ports.timers,
        network=ports.network,
        random=ports.random,
        trace=ports.trace,
        on_authority=on_authority,
        on_watch=on_watch,
        config=config,
    )


def standing(world: World, prefix: str, kind: type[Kind]) -> list[Kind]:
    """The values that stand at the authority under *prefix*; nothing while it is down."""
    node = world.nodes[AUTHORITY].core
    if node is None:
        return []
    return [
        msgspec.json.decode(item.value, type=kind)
        for key, item in sorted(node.store.truth.items.items())
        if key.startswith(prefix)
    ]
