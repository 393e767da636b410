"""A world of one's own for tests of the simulator's parts."""

from typing import Any

from holdfast.sim import NodePorts, Options, SimNode, World


class Probe:
    """A core that notes what reaches it, with the time."""

    def __init__(self, ports: NodePorts) -> None:
        self.ports = ports
        self.messages: list[tuple[str, Any]] = []
        self.ticks: list[Any] = []
        self.synced: list[tuple[Any, bool]] = []
        self.disk = ports.disk("data", self.on_synced)
        self.timers = ports.timers(self.on_timer)

    def on_message(self, peer: str, message: Any) -> None:
        self.messages.append((peer, message))

    def on_timer(self, tag: Any) -> None:
        if isinstance(tag, BaseException):
            raise tag
        self.ticks.append((tag, self.ports.node.world.now))

    def on_synced(self, token: Any, ok: bool) -> None:
        self.synced.append((token, ok))


def make_world(*, seed: int = 1, keep_trace: bool = False, **options: Any) -> World:
    return World(Options(scenario="register", seed=seed, **options), keep_trace=keep_trace)


def probe(world: World, name: str = "a", **options: Any) -> SimNode:
    return world.add_node(name, Probe, **options)
