"""Fault profiles: how a seed becomes a complete schedule of faults and the conditions they happen under.

No single mix of faults finds everything. The default profile gives most seeds a mix of their own (a *swarm*:
which kinds, how often). It gives some seeds a narrow, extreme profile, because a few kinds alone reach states
that a mix never reaches.
"""

import random
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.sim.engine.options import (
    MICROSECOND,
    MILLISECOND,
    SECOND,
    TIMERS_EARLY_NS,
    DiskOptions,
    FaultEvent,
    NetworkOptions,
    Options,
)
from holdfast.sim.faults import (
    CLOCK_KINDS,
    DAMAGE_KINDS,
    DISK_KINDS,
    KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
    FaultKind,
    Field,
)
from holdfast.sim.runner.scenario import Bound, Scenario, scenario_class

DEFAULT: Final = "default"
SWARM: Final = "swarm"
CALM: Final = "calm"
NARROW_SHARE: Final = 0.3
"""The share of seeds of the default profile that get a narrow profile."""
RETUNED_SHARE: Final = 0.25
"""The share of runs in which hosts are given other settings while they run."""
FAULTS_MAX: Final = 200
GAPS_NS: Final = (150 * MILLISECOND, 400 * MILLISECOND, 700 * MILLISECOND, 2 * SECOND)
"""Mean times between two faults; one is drawn for each run."""


class Narrow(Struct, frozen=True, kw_only=True):
    """A profile of few kinds of faults, with conditions that suit them."""

    kinds: tuple[str, ...]
    gap_ns: int
    disk: DiskOptions | None = None
    network: NetworkOptions | None = None
    in_memory: bool = False
    retunes: bool = False
    about: str | None = None
    """The profile is drawn only for scenarios that take this kind of fault; None: for those that take any of
    *kinds*."""


SLOW_DISK: Final = DiskOptions(sync_min_ns=MILLISECOND, sync_mean_ns=40 * MILLISECOND)

NARROW: Final[dict[str, Narrow]] = {
    "kills": Narrow(kinds=PROCESS_KINDS, gap_ns=200 * MILLISECOND),
    "slow-kills": Narrow(
        kinds=("kill", "kill_inside", "quick_restart", *POWER_KINDS),
        gap_ns=300 * MILLISECOND,
        disk=SLOW_DISK,
    ),
    "power": Narrow(kinds=POWER_KINDS, gap_ns=300 * MILLISECOND),
    "blackouts": Narrow(kinds=("power_cut_all",), gap_ns=600 * MILLISECOND),
    "network": Narrow(kinds=NETWORK_KINDS, gap_ns=400 * MILLISECOND),
    "pauses": Narrow(kinds=("pause", "suspend", *NETWORK_KINDS), gap_ns=400 * MILLISECOND),
    "clocks": Narrow(kinds=CLOCK_KINDS, gap_ns=150 * MILLISECOND),
    "clock-kills": Narrow(kinds=(*CLOCK_KINDS, "kill", "power_cut"), gap_ns=200 * MILLISECOND),
    "disks": Narrow(kinds=(*DISK_KINDS, "power_cut"), gap_ns=300 * MILLISECOND),
    "syncs": Narrow(kinds=("sync_fail", "power_cut", "kill"), gap_ns=300 * MILLISECOND),
    "full": Narrow(kinds=("disk_full", "kill_inside"), gap_ns=300 * MILLISECOND),
    "views": Narrow(kinds=("authority_mute", "host_away", "primary_falls"), gap_ns=350 * MILLISECOND),
    "terms": Narrow(kinds=("usurp", "stall", "authority_mute"), gap_ns=350 * MILLISECOND),
    "parted": Narrow(kinds=("coordinator_parted",), gap_ns=500 * MILLISECOND),
    "alone": Narrow(kinds=("primary_parted",), gap_ns=700 * MILLISECOND),
    "deaf": Narrow(kinds=("deaf_for_good",), gap_ns=100 * MILLISECOND),
    "stuck": Narrow(kinds=("stuck_for_good",), gap_ns=100 * MILLISECOND),
    "lags": Narrow(kinds=("lags_under_load",), gap_ns=500 * MILLISECOND),
    "changes": Narrow(kinds=("falls_at_change", "host_away", "hosts_parted"), gap_ns=300 * MILLISECOND),
    "stops": Narrow(kinds=("orderly_stop",), gap_ns=1500 * MILLISECOND),
    "moves": Narrow(
        kinds=("placement_changes", "kill", "quick_restart", "power_cut", "falls_at_change", "hosts_parted"),
        gap_ns=200 * MILLISECOND,
        about="placement_changes",
    ),
    "steps": Narrow(
        kinds=("falls_at_step", "parted_at_step"), gap_ns=250 * MILLISECOND, about="falls_at_step"
    ),
    "management": Narrow(
        kinds=("host_drained", "placement_changes", "host_away"),
        gap_ns=250 * MILLISECOND,
        about="host_drained",
    ),
    "deploys": Narrow(
        kinds=("deploy", "deploy_all", "upgrade_wished", "kill", "quick_restart", "hosts_parted"),
        gap_ns=250 * MILLISECOND,
        about="deploy",
    ),
    "sleepers": Narrow(kinds=("host_sleeps",), gap_ns=300 * MILLISECOND),
    "standing": Narrow(kinds=("loop_stands",), gap_ns=800 * MILLISECOND),
    "sickness": Narrow(kinds=("object_spoilt", "host_sick"), gap_ns=300 * MILLISECOND),
    "busy": Narrow(kinds=("load",), gap_ns=100 * MILLISECOND),
    "tails": Narrow(kinds=("last_batch_rots",), gap_ns=300 * MILLISECOND),
    "filling": Narrow(kinds=("disk_fills",), gap_ns=800 * MILLISECOND),
    "classes": Narrow(kinds=("class_breaks",), gap_ns=500 * MILLISECOND),
    "swayed": Narrow(
        kinds=("object_differs", "kill", "quick_restart", "host_away"),
        gap_ns=300 * MILLISECOND,
        about="object_differs",
    ),
    "parcels": Narrow(
        kinds=("garbled", "kill", "power_cut", "bit_rot"), gap_ns=250 * MILLISECOND, about="garbled"
    ),
    "stores": Narrow(
        kinds=("store_wiped", "store_put_back", "store_copied", "kill", "isolation", "partial"),
        gap_ns=250 * MILLISECOND,
        about="store_put_back",
    ),
    "strangers": Narrow(
        kinds=("strange_greeting", "kill", "isolation"), gap_ns=250 * MILLISECOND, about="strange_greeting"
    ),
    "retirements": Narrow(
        kinds=("retired_by_force", "isolation", "partition", "quick_restart"),
        gap_ns=250 * MILLISECOND,
        about="retired_by_force",
    ),
    "damage": Narrow(kinds=(*DAMAGE_KINDS, "kill", "power_cut"), gap_ns=500 * MILLISECOND),
}

SLOW_NETWORK: Final = NetworkOptions(delay_mean_ns=5 * MILLISECOND)

AIMED: Final[dict[str, Narrow]] = {
    # A primary waits for one backup, which then replaces it while many of its operations are not committed.
    "pairs": Narrow(kinds=("hosts_parted",), gap_ns=300 * MILLISECOND, network=SLOW_NETWORK),
    "memory": Narrow(
        kinds=("kill", "quick_restart", "hosts_parted"), gap_ns=200 * MILLISECOND, in_memory=True
    ),
    # Members of a group in memory that come, go, differ and lose what they executed: they are sent its state.
    "scratch": Narrow(
        kinds=("hosts_parted", "host_away", "object_differs", "quick_restart", "placement_changes"),
        gap_ns=250 * MILLISECOND,
        network=SLOW_NETWORK,
        in_memory=True,
    ),
    # Hosts whose previous process is known to be dead, while the current one serves and receives no messages.
    "deaths": Narrow(kinds=("kill", "quick_restart", "primary_parted"), gap_ns=400 * MILLISECOND),
    # A host is told of deaths that never were, and cannot hear those who live.
    "false-deaths": Narrow(
        kinds=("false_death", "kill", "quick_restart"), gap_ns=500 * MILLISECOND, in_memory=True
    ),
    # Movers that go on after everybody has given them up.
    "movers-pause": Narrow(
        kinds=("mover_pauses", "falls_at_step"), gap_ns=300 * MILLISECOND, network=SLOW_NETWORK
    ),
    # Leases of many lengths, and primaries that rest their reads on them.
    "retuned": Narrow(kinds=("primary_parted",), gap_ns=500 * MILLISECOND, retunes=True),
    "retuned-kills": Narrow(
        kinds=("primary_parted", "quick_restart", "kill"), gap_ns=400 * MILLISECOND, retunes=True
    ),
    "rot": Narrow(kinds=("rot_tail", "rot_checkpoint"), gap_ns=300 * MILLISECOND),
    # Coordinators that are replaced while their decisions are being carried out.
    "usurpers": Narrow(kinds=("usurp", "stall"), gap_ns=250 * MILLISECOND, network=SLOW_NETWORK),
    # The power fails just after a killed process has restarted, before it has synced anything.
    "bursts": Narrow(kinds=("kill_inside", "quick_restart", "power_cut"), gap_ns=40 * MILLISECOND),
}
"""Narrow profiles that the default never draws: each provokes conditions that some planted bugs need to
show."""


def profile_names() -> list[str]:
    return [DEFAULT, SWARM, CALM, *NARROW, *AIMED]


def expand(scenario: str, seed: int, profile: str = DEFAULT, *, planted: str | None = None) -> Options:
    """Return the complete options of one run, made from its seed."""
    return expand_for(scenario_class(scenario), seed, profile, planted=planted)


def expand_for(
    cls: type[Scenario], seed: int, profile: str = DEFAULT, *, planted: str | None = None
) -> Options:
    if profile not in profile_names():
        raise InvalidRequest(f"no profile {profile!r}; there are: {', '.join(profile_names())}")
    rng = random.Random(f"{seed}/schedule/{cls.name}/{profile}")
    kinds = {name: kind for name, kind in kinds_of(cls).items() if not kind.is_aimed or _names(profile, name)}
    chosen = _choose(rng, profile, kinds)
    mix = _mix(rng, chosen, kinds)
    return Options(
        scenario=cls.name,
        seed=seed,
        profile=chosen,
        fault_ns=cls.fault_ns,
        heal_ns=cls.heal_ns,
        faults=tuple(_schedule(rng, cls, kinds, mix)),
        network=mix.network or _network(rng),
        disk=mix.disk or _disk(rng),
        points=0.0 if chosen == CALM else rng.choice((0.0, 0.25, 0.5)),
        timers_early_ns=rng.choice((0, TIMERS_EARLY_NS, TIMERS_EARLY_NS)),
        in_memory=mix.in_memory,
        # Drawn last, so that all else stays the same.
        retunes=mix.retunes or (chosen != CALM and rng.random() < RETUNED_SHARE),
        planted=planted,
    )


def kinds_of(cls: type[Scenario]) -> dict[str, FaultKind]:
    """Return the kinds of faults that a scenario takes, including its own."""
    shared = {name: KINDS[name] for name in cls.kinds}
    return shared | {kind.name: kind for kind in cls.own_kinds}


def _choose(rng: random.Random, profile: str, kinds: dict[str, FaultKind]) -> str:
    if profile != DEFAULT:
        return profile
    usable = [name for name, narrow in NARROW.items() if _suits(narrow, kinds)]
    return rng.choice(usable) if usable and rng.random() < NARROW_SHARE else SWARM


def _names(profile: str, kind: str) -> bool:
    return profile in AIMED and kind in AIMED[profile].kinds


def _suits(narrow: Narrow, kinds: dict[str, FaultKind]) -> bool:
    return any(kind in kinds for kind in ((narrow.about,) if narrow.about is not None else narrow.kinds))


class _Mix(Struct, frozen=True, kw_only=True):
    """The kinds that a run draws from, the weight of each, and the mean time between faults."""

    names: Sequence[str]
    weights: Sequence[float]
    gap_ns: int
    disk: DiskOptions | None = None
    network: NetworkOptions | None = None
    in_memory: bool = False
    retunes: bool = False


def _mix(rng: random.Random, profile: str, kinds: dict[str, FaultKind]) -> _Mix:
    if profile == CALM:
        return _Mix(names=(), weights=(), gap_ns=SECOND)
    if profile == SWARM:
        names = rng.sample(list(kinds), rng.randint(min(2, len(kinds)), len(kinds))) if kinds else []
        return _Mix(names=names, weights=[rng.uniform(0.1, 1) for _ in names], gap_ns=rng.choice(GAPS_NS))
    narrow = NARROW.get(profile) or AIMED[profile]
    names = [name for name in kinds if name in narrow.kinds]
    return _Mix(
        names=names,
        weights=[1.0] * len(names),
        gap_ns=narrow.gap_ns,
        disk=narrow.disk,
        network=narrow.network,
        in_memory=narrow.in_memory,
        retunes=narrow.retunes,
    )


def _schedule(
    rng: random.Random, cls: type[Scenario], kinds: dict[str, FaultKind], mix: _Mix
) -> list[FaultEvent]:
    field = Field.of(cls.nodes, cls.clients)
    allowances = [_Allowance(bound) for bound in cls.bounds]
    events: list[FaultEvent] = []
    at_ns = 0
    while mix.names and len(events) < FAULTS_MAX:
        at_ns += int(rng.expovariate(1.0) * mix.gap_ns) + 1
        if at_ns >= cls.fault_ns:
            break
        kind = kinds[rng.choices(mix.names, mix.weights)[0]]
        target = rng.choice(field.nodes) if kind.needs_target else ""
        event = FaultEvent(at_ns=at_ns, kind=kind.name, target=target, parameters=kind.draw(rng, field))
        if all(allowance.admits(event) for allowance in allowances):
            events.append(event)
    return events


class _Allowance:
    """How many more faults one bound permits in one run."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._left = bound.per_run
        self._hit: list[str] = []

    def admits(self, event: FaultEvent) -> bool:
        bound = self._bound
        if event.kind not in bound.kinds:
            return True
        if self._left == 0:
            return False
        if event.target not in self._hit:
            if bound.nodes is not None and len(self._hit) >= bound.nodes:
                return False
            self._hit.append(event.target)
        if self._left is not None:
            self._left -= 1
        return True


def _network(rng: random.Random) -> NetworkOptions:
    return NetworkOptions(
        delay_min_ns=rng.choice((20, 50, 500)) * MICROSECOND,
        delay_mean_ns=rng.choice((50, 200, 1000, 5000)) * MICROSECOND,
        loss=rng.choice((0.0, 0.0, 0.001, 0.02)),
        duplicate=rng.choice((0.0, 0.0, 0.001, 0.02)),
        late=rng.choice((0.0, 0.0, 0.001)),
    )


def _disk(rng: random.Random) -> DiskOptions:
    return DiskOptions(
        sync_min_ns=rng.choice((20, 100, 500)) * MICROSECOND,
        sync_mean_ns=rng.choice((100, 400, 2000, 10_000)) * MICROSECOND,
    )
