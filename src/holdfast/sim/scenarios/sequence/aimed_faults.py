"""Faults aimed at moments that the general faults rarely hit.

*Changes of the view (M2, M3, K1).* The authority applies changes and its answers are lost. A host is gone
long enough to be dropped, and returns to be let in. Two hosts cannot hear each other. The primary falls
silent towards everyone. The primary of the next view ends while that view is new. When everything else has
healed, one host may become deaf for good, or its disk or its loop may hang for good.

*Reads under leases: the primary is cut off, does not know it, and is asked (R3).* A group's primary hears
neither the other hosts nor the authority, while clients reach it as before and one of them goes on reading
there. Its leases run out; a backup claims the group and orders what other clients append. A primary whose
lease lasts longer than a backup waits would answer with a state that lacks those appends. General faults cut
too much, or the reader is elsewhere in those few milliseconds.

*A backup with a slow disk in a busy group (M4).* It answers in time, again and again, and delays its peers:
it is never silent, so only its lag reveals it. This happens when everything else has healed, so nothing
excuses the primary, which must drop the backup while M1 permits. Later the backup is let in again like any
other.
"""

import random
from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.views import View
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.sim.engine.network import Link
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent, Options
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later
from holdfast.sim.scenarios.authority.observer import Truth
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.sequence.application import Client
from holdfast.sim.scenarios.sequence.disk_damage import views
from holdfast.sim.scenarios.sequence.host import CONFIG, Host

SOON_NS: Final = 4 * MILLISECOND
"""The time of a few messages and syncs: some hosts know the new view, and others do not."""


DEAF: Final = "deaf_for_good"
DEAF_FOR_GOOD: Final = 0.05
"""The probability, small enough that most runs end with three equal members."""
STUCK: Final = "stuck_for_good"
FOR_EVER_NS: Final = 1 << 62
DEAF_NS: Final = 1500 * MILLISECOND
"""The time after healing: the groups serve by then, one of them perhaps on this host."""


def _draw_outage(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 300 * MILLISECOND, 2 * SECOND)}


def _draw_pair(rng: random.Random, field: Field) -> Parameters:
    hosts = [name for name in field.nodes if name != AUTHORITY]
    return {"pair": rng.sample(hosts, 2), **_draw_outage(rng, field)}


def _part(world: World, event: FaultEvent) -> bool:
    """Let two hosts not talk to each other; both talk to everyone else."""
    one, other = event.parameters["pair"]
    return _cut(world, event, [(one, other), (other, one)])


def _mute(world: World, event: FaultEvent) -> bool:
    """Let no answer of the authority through."""
    return _cut(world, event, [(AUTHORITY, name) for name in world.nodes if name != AUTHORITY])


def _away(world: World, event: FaultEvent) -> bool:
    """Kill a host for the drawn time."""
    node = world.nodes[event.target]
    if event.target == AUTHORITY or not node.kill():
        return False
    node.restart(event.parameters["for_ns"])
    return True


def _fall(world: World, event: FaultEvent) -> bool:
    """Cut the first group's primary off from every other node."""
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
        **_draw_outage(rng, field),
    }


def _falls_at_change(world: World, event: FaultEvent) -> bool:
    """Wait for the next view that is written; then end its primary, at once or very soon."""
    authority = world.nodes[AUTHORITY].core
    if authority is None:
        return False
    truth: Truth = authority.store.truth

    def fall(primary: str) -> None:
        node = world.nodes[primary]
        ended = node.power_cut() if event.parameters["is_power"] else node.kill()
        if ended:
            world.faults[event.kind] += 1
            node.restart(event.parameters["for_ns"])

    def on_commit(events: Events) -> bool:
        for change in events.changes:
            if change.item is not None and change.key.startswith(keys.VIEWS) and not world.is_healed:
                primary = msgspec.json.decode(change.item.value, type=View).primary
                later(world, event.parameters["after_ns"], fall, primary)
                return False
        return not world.is_healed

    truth.watchers.append(on_commit)
    return False  # counted when the primary ends


def _draw_deaf(rng: random.Random, _: Field) -> Parameters:
    return {"is_meant": rng.random() < DEAF_FOR_GOOD}


def _deafening(options: Options) -> FaultEvent | None:
    for event in options.faults:
        if event.kind == DEAF and event.parameters["is_meant"] and event.target != AUTHORITY:
            return event
    return None


def deaf_host(options: Options) -> str | None:
    """Return the host that is deaf in the end, if any."""
    event = _deafening(options)
    return event.target if event is not None else None


def _deaf_for_good(world: World, event: FaultEvent) -> bool:
    """When all else has healed, let a host hear nothing any more, though it can send: it must end (K3)."""
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
    """Return the fault that leaves a host's disk or loop stuck in the end.

    There is none where another host is deaf.
    """
    meant = (event for event in options.faults if event.kind == STUCK and event.parameters["is_meant"])
    found = next((event for event in meant if event.target != AUTHORITY), None)
    return found if deaf_host(options) is None else None


def unusable_host(options: Options) -> str | None:
    """Return the host that cannot serve in the end: deaf, or without a disk.

    A host whose loop was stuck is restarted and works normally.
    """
    event = stuck(options)
    return event.target if event is not None and event.parameters["is_disk"] else deaf_host(options)


def _stuck_for_good(world: World, event: FaultEvent) -> bool:
    """When all else has healed, let a host's syncs never end, or its loop hang: the host must end (K3)."""
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
    FaultKind("authority_mute", _draw_outage, _mute, needs_target=False),
    FaultKind("host_away", _draw_outage, _away),
    FaultKind("primary_falls", _draw_outage, _fall, needs_target=False),
    FaultKind("hosts_parted", _draw_pair, _part, needs_target=False),
    FaultKind(DEAF, _draw_deaf, _deaf_for_good),
    FaultKind("falls_at_change", _draw_fall, _falls_at_change, needs_target=False),
)


GROUPS_MAX: Final = 100
"""More than any run has."""


def _draw_parting(rng: random.Random, _: Field) -> Parameters:
    return {"group": rng.randrange(GROUPS_MAX), "for_ns": duration(rng, 300 * MILLISECOND, SECOND)}


def _part_primary(world: World, event: FaultEvent) -> bool:
    """Cut the primary of one group off from every other server, and let a client of the group read there."""
    known = views(world)
    if not known:
        return False
    view = known[event.parameters["group"] % len(known)]
    primary, for_ns = view.primary, event.parameters["for_ns"]
    clients = {name: node.core for name, node in world.nodes.items() if isinstance(node.core, Client)}
    others = [name for name in world.nodes if name not in clients and name != primary]
    links = [link for name in others for link in ((primary, name), (name, primary))]
    world.network.cut(links)
    later(world, for_ns, world.network.mend, links)
    readers = [client for client in clients.values() if client.group == view.group]
    for reader in readers[:1]:
        reader.read_at(primary, for_ns)
    backups = [each.host for each in view.members if each.host != primary]
    for backup in backups[:1]:
        core = world.nodes[backup].core
        if isinstance(core, Host):
            core.settings.restart_edited(backup)
    return True


PARTING: Final = FaultKind("primary_parted", _draw_parting, _part_primary, needs_target=False)


LAGS: Final = "lags_under_load"
LAG_NS: Final = 3 * SECOND
STEP_NS: Final = 20 * MILLISECOND
SYNC_NS: Final = 250 * MILLISECOND
"""The time between syncs of the slow disk: short enough that its host is never silent."""
OPEN_NS: Final = 5 * MILLISECOND
"""How long the slow disk completes syncs before it hangs again."""
POURED: Final = 20
"""Records per step and group: many more than the slow disk can take."""
PATIENCE_NS: Final = 1500 * MILLISECOND
"""How long a backup may lag: until the primary checks, and for one or two changes of the view."""


def _draw_lagging(rng: random.Random, field: Field) -> Parameters:
    return {"host": rng.choice([name for name in field.nodes if name != AUTHORITY])}


def _lags(world: World, event: FaultEvent) -> bool:
    """When all else has healed, slow down one host's disk while every group has much to do."""
    if deaf_host(world.options) is not None or stuck(world.options) is not None:
        return False  # the groups need the second host
    world.at(world.options.fault_ns + DEAF_NS, _Load(world, event.parameters["host"]).begin)
    return True


class _Load:
    """The load, the slow disk of *host*, and the check for backups that lag and are still in the view."""

    def __init__(self, world: World, host: str) -> None:
        self._world = world
        self._disk = world.nodes[host].disk
        self._until_ns = 0
        self._lagging: dict[tuple[GroupId, Epoch, HostId], int] = {}
        """Since when each member has lagged, by group and epoch."""

    def begin(self) -> None:
        self._until_ns = self._world.now + LAG_NS
        self._slow_down()
        self._step()

    def _slow_down(self) -> None:
        world = self._world
        if world.now < self._until_ns:
            self._disk.hung_until_ns = world.now + SYNC_NS
            world.after(SYNC_NS + OPEN_NS, self._slow_down)

    def _step(self) -> None:
        world = self._world
        if world.now >= self._until_ns:
            return
        for node in list(world.nodes.values()):
            if isinstance(node.core, Host):
                node.run(node.life, node.core.pour, POURED)
        for view in views(world):
            self._check(view)
        world.after(STEP_NS, self._step)

    def _check(self, view: View) -> None:
        lagging = dict(_lags_behind(self._world, view))
        for member in view.members:
            key = view.group, view.epoch, member.host
            if member.host not in lagging:
                self._lagging.pop(key, None)
            elif self._world.now - self._lagging.setdefault(key, self._world.now) > PATIENCE_NS:
                said = f"{member.host} is {lagging[member.host]} positions behind, and is listed"
                self._world.violation("M4", f"group {view.group}: {said}")


def _lags_behind(world: World, view: View) -> Iterator[tuple[HostId, int]]:
    """Yield the backups that the primary should drop, and by how much they lag.

    The primary sees a larger lag, since a backup may not have acknowledged all that it has received. The
    others count by what they have acknowledged: one with a slow disk has received more than another that had
    to ask again, and is the one that lags.
    """
    cores = {each.host: world.nodes[each.host].core for each in view.members}
    members = {host: core.members[view.group] for host, core in cores.items() if _has(core, view.group)}
    if len(members) < len(view.members) or len(members) <= CONFIG.min_in_sync:
        return
    acknowledged_by = members[view.primary]._submission.acknowledged_by
    for each in view.members:
        others = (acknowledged_by(other) for other in view.members if other.host != each.host)
        behind = min(others) - members[each.host].tail
        if each.host != view.primary and behind > CONFIG.lag_limit:
            world.sometimes("a listed backup lags")
            yield each.host, behind


def _has(core: Host | None, group: GroupId) -> bool:
    return core is not None and group in core.members


LAGGING: Final = FaultKind(LAGS, _draw_lagging, _lags, needs_target=False)
