"""Faults aimed at changes of the view: the general ones meet them too seldom (M2, M3, K1).

The authority applies what it is asked and its answers are lost; a host is gone long enough to be dropped, and
comes back to be let in; two hosts do not hear each other; the primary falls silent towards everyone; whoever
is primary of the next view ends while that view is new. One host may become deaf when everything else has
healed, and stay so; or its disk or its loop may stand still for good.
"""

import random
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.views import View
from holdfast.sim.authority.asking import AUTHORITY
from holdfast.sim.authority.truth import Truth
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.network import Link
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent, Options
from holdfast.sim.sequence.damage import views
from holdfast.sim.world import World

SOON_NS: Final = 4 * MILLISECOND
"""A few messages and syncs: a new view has been told to some, and not to others."""


DEAF: Final = "deaf_for_good"
DEAF_FOR_GOOD: Final = 0.05
"""So seldom that most runs end with three members that are equal."""
STUCK: Final = "stuck_for_good"
FOR_EVER_NS: Final = 1 << 62
DEAF_NS: Final = 1500 * MILLISECOND
"""After healing: the groups serve by then, one of them perhaps there."""


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 300 * MILLISECOND, 2 * SECOND)}


def _draw_pair(rng: random.Random, field: Field) -> Parameters:
    hosts = [name for name in field.nodes if name != AUTHORITY]
    return {"pair": rng.sample(hosts, 2), **_draw(rng, field)}


def _part(world: World, event: FaultEvent) -> bool:
    """Let two hosts not talk to each other; both talk to everyone else."""
    one, other = event.parameters["pair"]
    return _cut(world, event, [(one, other), (other, one)])


def _mute(world: World, event: FaultEvent) -> bool:
    """Let no answer of the authority through."""
    return _cut(world, event, [(AUTHORITY, name) for name in world.nodes if name != AUTHORITY])


def _away(world: World, event: FaultEvent) -> bool:
    """Kill a host for so long."""
    node = world.nodes[event.target]
    if event.target == AUTHORITY or not node.kill():
        return False
    node.restart(event.parameters["for_ns"])
    return True


def _fall(world: World, event: FaultEvent) -> bool:
    """Cut the first group's primary off from everybody."""
    primaries = [view.primary for view in views(world)][:1]
    links: list[Link] = []
    for primary in primaries:
        for name in world.nodes:
            if name != primary:
                links += [(primary, name), (name, primary)]
    return _cut(world, event, links)


def _cut(world: World, event: FaultEvent, links: list[Link]) -> bool:
    world.network.cut(links)
    later(world, event.parameters["for_ns"], world.network.mend, links)
    return bool(links)


def _draw_fall(rng: random.Random, field: Field) -> Parameters:
    return {
        "after_ns": rng.choice((0, rng.randrange(SOON_NS))),
        "is_power": rng.random() < 0.5,
        **_draw(rng, field),
    }


def _falls_at_change(world: World, event: FaultEvent) -> bool:
    """Wait for the next view that is written; then its primary ends, at once or very soon."""
    authority = world.nodes[AUTHORITY].core
    if authority is None:
        return False
    truth: Truth = authority.store.truth

    def fall(primary: str) -> None:
        node = world.nodes[primary]
        ended = node.power_cut() if event.parameters["is_power"] else node.kill()
        if ended and not world.is_healed:
            world.faults[event.kind] += 1
            node.restart(event.parameters["for_ns"])

    def on_commit(events: Events) -> bool:
        for change in events.changes:
            if change.item is not None and change.key.startswith(keys.VIEWS) and not world.is_healed:
                primary = msgspec.json.decode(change.item.value, type=View).primary
                world.after(event.parameters["after_ns"], fall, primary)
                return False
        return not world.is_healed

    truth.watchers.append(on_commit)
    return False  # counted when it happens


def _draw_deaf(rng: random.Random, _: Field) -> Parameters:
    return {"is_meant": rng.random() < DEAF_FOR_GOOD}


def _deafening(options: Options) -> FaultEvent | None:
    for event in options.faults:
        if event.kind == DEAF and event.parameters["is_meant"] and event.target != AUTHORITY:
            return event
    return None


def deaf_host(options: Options) -> str | None:
    """The host that is deaf in the end, if one is."""
    event = _deafening(options)
    return event.target if event is not None else None


def _deaf_for_good(world: World, event: FaultEvent) -> bool:
    """When all else has healed, let a host hear nothing any more, though it can speak: it must go (K3)."""
    host = event.target
    if event != _deafening(world.options):
        return False

    def deafen() -> None:
        world.network.cut([(name, host) for name in world.nodes if name != host])

    world.at(world.options.fault_ns + DEAF_NS, deafen)
    return True


def _draw_stuck(rng: random.Random, _: Field) -> Parameters:
    return {"is_meant": rng.random() < DEAF_FOR_GOOD, "is_disk": rng.random() < 0.5}


def stuck(options: Options) -> FaultEvent | None:
    """The host that is stuck in the end, by its disk or by its loop; none where another is deaf."""
    meant = (event for event in options.faults if event.kind == STUCK and event.parameters["is_meant"])
    found = next((event for event in meant if event.target != AUTHORITY), None)
    return found if deaf_host(options) is None else None


def lame_host(options: Options) -> str | None:
    """The host that nothing can be asked of in the end: deaf, or without a disk. One whose loop stood still
    is started again, and is as good as any."""
    event = stuck(options)
    return event.target if event is not None and event.parameters["is_disk"] else deaf_host(options)


def _stuck_for_good(world: World, event: FaultEvent) -> bool:
    """When all else has healed, let a host's syncs never end, or its loop not turn: it must go (K3)."""
    if event != stuck(world.options):
        return False

    def stick() -> None:
        node = world.nodes[event.target]
        if event.parameters["is_disk"]:
            node.disk.hung_until_ns = FOR_EVER_NS
        else:
            node.hang()

    world.at(world.options.fault_ns + DEAF_NS, stick)
    return True


STICKING: Final = FaultKind(STUCK, _draw_stuck, _stuck_for_good)
FAULTS: Final = (
    FaultKind("authority_mute", _draw, _mute, needs_target=False),
    FaultKind("host_away", _draw, _away),
    FaultKind("primary_falls", _draw, _fall, needs_target=False),
    FaultKind("hosts_parted", _draw_pair, _part, needs_target=False),
    FaultKind(DEAF, _draw_deaf, _deaf_for_good),
    FaultKind("falls_at_change", _draw_fall, _falls_at_change, needs_target=False),
)
