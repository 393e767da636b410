"""The domain of one run: its hosts, its groups with their styles and places, and its settings."""

import random
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from holdfast.authority.groups import DISK, MEMORY, RESTART, WAIT, GroupRecord, Placement
from holdfast.calling.config import ClientConfig
from holdfast.execution.definition import Definition
from holdfast.groups.settings import GroupsConfig
from holdfast.model.errors import InvalidRequest, invariant
from holdfast.model.ids import GroupId, HostId, Nonce, StoreId
from holdfast.sim.engine.options import MICROSECOND, MILLISECOND, SECOND
from holdfast.sim.scenarios.groups import space_faults
from holdfast.sim.scenarios.groups.objects import CLASSES
from holdfast.sim.scenarios.groups.parcels import Parcels
from holdfast.sim.scenarios.sequence.host import ASKING_MAX, CONFIG
from holdfast.sim.scenarios.sequence.lease_settings import LEASES
from holdfast.styles.config import StyleConfig

HOSTS: Final = ("h1", "h2", "h3", "h4", "h5")
HOST_COUNTS: Final = (3, 3, 3, 3, 4, 5)
CLIENTS: Final = ("c1", "c2", "c3")
KINDS: Final = (
    ("active", "tokens"),
    ("warm_passive", "tokens"),
    ("warm_passive", "ledger"),
    ("cold_passive", "tokens"),
    ("cold_passive", "ledger"),
    ("active", "ledger"),
    ("stateless", "echo"),
)
"""Styles, and the classes whose state is captured in different ways."""
GROUP_COUNTS: Final = (2, 2, 3, 4)
MIN_IN_SYNC: Final = 2
LAG_LIMIT: Final = 200
"""More than may be uncommitted: members dropped for their lag are covered by the scenario ``sequence``."""
IN_MEMORY: Final = 0.3
"""How often the first group is in memory. It ends when all its in-sync processes have ended (V4), and no
other group calls the first, because it would wait for it."""
RESTARTS: Final = 0.5
"""How often that group restarts, when it has ended, from what there is (V4). Only one that does not keeps its
large states in scratch files."""
CALLING: Final = ClientConfig(
    window_calls=24,
    patience_ns=300 * MILLISECOND,
    patience_most_ns=2 * SECOND,
    rest_ns=5 * MILLISECOND,
    rest_most_ns=100 * MILLISECOND,
    heartbeat_interval_ns=150 * MILLISECOND,
    heartbeat_timeout_ns=500 * MILLISECOND,
)
"""Settings of clients, and of groups that call groups."""
UNBEGUN: Final = 0.3
"""How often the last group is created without members."""
WOVEN: Final = 0.5
"""How often a group whose class could be interleaved is."""
FITFUL: Final = 0.4
"""How often a group whose class is not interleaved is one whose state is at times unreadable (E9)."""
FILED: Final = 0.3
"""How often an active group on disk is one whose object has a database of its own (W7)."""
DEADLY: Final = (0, 1)
TURNS_NS: Final = (0, 100 * MICROSECOND, 1 * MILLISECOND)
"""How long a host gathers incoming messages before it handles them together."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The domain of one run."""

    hosts: tuple[HostId, ...]
    groups: tuple[GroupRecord, ...]
    config: GroupsConfig
    turn_ns: int
    hand_overs: float
    """The probability that a primary hands over, at each check."""
    deadly: int
    """The number of calls that end the process that executes them (E4)."""
    roles: dict[HostId, tuple[str, ...]] = field(default_factory=dict)
    """What some hosts are for, if not for groups."""
    has_hearts: bool = False
    """Whether a separate thread exchanges the heartbeats of hosts, instead of their event loops (R4)."""

    @classmethod
    def drawn(
        cls, rng: random.Random, host_counts: tuple[int, ...] = HOST_COUNTS, *, in_memory: bool = False
    ) -> "Stage":
        """Draw a domain. *in_memory*: the first group is in memory."""
        hosts = tuple(HostId(name) for name in HOSTS[: rng.choice(host_counts)])
        kinds = rng.sample(KINDS, rng.choice(GROUP_COUNTS))
        kinds.sort(key=lambda kind: kind[0] == "stateless")  # faults aim at the first group's primary
        groups = tuple(
            _record(rng, number, kind, hosts, in_memory=in_memory)
            for number, kind in enumerate(kinds, start=1)
        )
        stage = cls(
            hosts,
            groups,
            _config(rng),
            rng.choice(TURNS_NS),
            rng.choice((0.0, 0.05, 0.2)),
            rng.choice(DEADLY),
        )
        stage = stage.without_members(-1) if rng.random() < UNBEGUN else stage
        return stage.woven(rng).fitful(rng).filed(rng)

    def barred(self, rng: random.Random) -> "Stage":
        """Return the same domain with a group on disk that has a member that never leads (W3). A group in
        memory would wait for a person once its last process that may lead has ended."""
        able = [index for index, each in enumerate(self.groups) if each.durability == DISK]
        groups = list(self.groups)
        if able:
            index = rng.choice(able)
            host = rng.choice(groups[index].members[1:]).host  # the first one creates it
            members = tuple(
                msgspec.structs.replace(each, never_leads=each.host == host) for each in groups[index].members
            )
            groups[index] = msgspec.structs.replace(groups[index], members=members)
        return replace(self, groups=tuple(groups))

    def fitful(self, rng: random.Random) -> "Stage":
        """Return the same domain with some groups of a class whose state is at times unreadable."""
        groups = [
            msgspec.structs.replace(each, class_name="fitful")
            if each.class_name == "tokens" and rng.random() < FITFUL
            else each
            for each in self.groups
        ]
        return replace(self, groups=tuple(groups))

    def filed(self, rng: random.Random) -> "Stage":
        """Return the same domain with some groups of a stored class."""
        groups = [
            msgspec.structs.replace(each, class_name="filed")
            if each.style == "active" and each.durability == DISK and rng.random() < FILED
            else each
            for each in self.groups
        ]
        return replace(self, groups=tuple(groups))

    def woven(self, rng: random.Random) -> "Stage":
        """Return the same domain with some groups interleaved.

        This is drawn last, so that all else stays the same.
        """
        groups = [
            msgspec.structs.replace(each, class_name="woven")
            if each.class_name == "tokens" and rng.random() < WOVEN
            else each
            for each in self.groups
        ]
        return replace(self, groups=tuple(groups))

    def without_members(self, index: int) -> "Stage":
        """Return the same domain with that group only placed: the first of its hosts begins it (FTC-213)."""
        groups = list(self.groups)
        groups[index] = msgspec.structs.replace(groups[index], is_begun=False)
        return replace(self, groups=tuple(groups))

    def creator(self, record: GroupRecord) -> HostId:
        """Return the host that creates the group; it is the first primary unless the group is only placed."""
        return record.members[0].host


def definition_of(record: GroupRecord) -> Definition:
    """The scenario's :attr:`holdfast.groups.ports.GroupsPorts.define`."""
    found = CLASSES.get(record.class_name)
    if found is None:
        raise InvalidRequest(f"no class {record.class_name}")
    return Definition(
        group=record.name, cls=found, fresh=found, created_ns=record.created_ns, annexes=annexes_of(record)
    )


def annexes_of(record: GroupRecord) -> tuple[Parcels, ...]:
    """The annexes of the group, not bound to a member."""
    return () if record.style == "stateless" else (Parcels(),)


def _record(
    rng: random.Random, number: int, kind: tuple[str, str], hosts: tuple[HostId, ...], *, in_memory: bool
) -> GroupRecord:
    style, class_name = kind
    places = rng.sample(hosts, min(len(hosts), rng.choice((3, 3, 4))))
    is_in_memory = number == 1 and (rng.random() < IN_MEMORY or in_memory)
    return GroupRecord(
        group=GroupId(number),
        class_name=class_name,
        style=style,
        members=tuple(Placement(host=host, store=StoreId("")) for host in places),
        nonce=Nonce(f"create/{number}"),
        name=f"{style}-{class_name}-{number}",
        min_in_sync=MIN_IN_SYNC,
        durability=MEMORY if is_in_memory else DISK,
        on_total_loss=RESTART if is_in_memory and rng.random() < RESTARTS else WAIT,
    )


def _config(rng: random.Random) -> GroupsConfig:
    # A state that is sent must be small compared with what makes the next checkpoint due.
    sent_bytes, due_bytes = rng.choice(((1, 3_000), (1, 10_000), (3_000, 10_000)))
    style = StyleConfig(
        checkpoint_interval_ns=rng.choice((150 * MILLISECOND, 600 * MILLISECOND, 3000 * MILLISECOND)),
        checkpoint_bytes=due_bytes,
        long_log_bytes=32_000,
        log_bytes_max=40_000,
        scan_bytes=rng.choice((1_000, 8_000)),
        # Executing takes no simulated time, and so counts as a nanosecond per call.
        replay_budget_ns=rng.choice((2, 20, 1_000_000_000)),
        sent_state_bytes_max=sent_bytes,
        inline_state_bytes_max=rng.choice((1, 1_000, 1_000_000)),
        object_retry_ns=100 * MILLISECOND,
        object_retry_most_ns=400 * MILLISECOND,
        copy_retry_ns=100 * MILLISECOND,
        copy_retry_most_ns=1000 * MILLISECOND,
        scan_positions=rng.choice((1, 8, 64)),
        gate_ns=400 * MILLISECOND,
        gate_pause_ns=400 * MILLISECOND,
        gate_again_ns=20 * MILLISECOND,
        query_wait_ns=500 * MILLISECOND,
        in_line_max=50,
        uncommitted_max=100,
    )
    invariant(not style.validate(), "a run's settings are valid ones")
    sequence = msgspec.structs.replace(
        CONFIG, min_in_sync=MIN_IN_SYNC, lag_limit=LAG_LIMIT, hold_bytes=24_000
    )
    return GroupsConfig(
        leases=LEASES,
        sequence=sequence,
        style=style,
        calling=CALLING,
        asking_max=ASKING_MAX,
        space=space_faults.SPACE,
    )
