"""The domain of one run: groups that take part in streams, with their policies, and the sources of these."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from holdfast.authority.groups import DISK, MEMORY, WAIT, GroupRecord, Placement
from holdfast.model.ids import MILLISECOND, GroupId, HostId, Nonce, StoreId
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.groups.setup import HOSTS, Stage
from holdfast.sim.scenarios.streams.books import POLICIES, BookKind
from holdfast.sim.scenarios.streams.deciders import GROUP
from holdfast.sim.scenarios.streams.host import finder
from holdfast.sim.scenarios.streams.observer import StreamBook
from holdfast.sim.scenarios.streams.sources import Source
from holdfast.streams.actions import Drop, Recover
from holdfast.streams.config import StreamSettings

GROUPS_MAX: Final = 2
LOSSES: Final = (0.0, 0.0, 0.02, 0.1, 0.3, 0.5)
"""How often messages are lost on the way to one host."""
JUDGED: Final = 0.25
"""How many of the groups leave their losses to another group."""
CRAMPED: Final = 0.5
"""How many of the groups whose order has only numbers have little room."""
HOLD_MESSAGES: Final = 30
SUSPENDED_BYTES: Final = 1 << 20
UNCOMMITTED_MAX: Final = 4_000
LOG_BYTES: Final = 150_000
"""Messages are many: the log may have more of them than other scenarios' calls."""


def drawn_stage(world: World) -> Stage:
    """Draw the domain of this run."""
    rng = world.rng("stage")
    base = Stage.drawn(rng, (3,))
    hosts = tuple(HostId(name) for name in HOSTS[:3])
    groups = tuple(_record(rng, number, hosts) for number in range(1, 1 + rng.choice((1, 1, GROUPS_MAX))))
    groups = tuple(_judged(world.rng("deciders"), groups))
    groups = tuple(_cramped(world.rng("room"), groups))
    style = msgspec.structs.replace(
        base.config.style,
        uncommitted_max=UNCOMMITTED_MAX,
        in_line_max=UNCOMMITTED_MAX,
        checkpoint_bytes=LOG_BYTES // 5,
        long_log_bytes=LOG_BYTES - LOG_BYTES // 5,
        log_bytes_max=LOG_BYTES,
    )
    sequence = msgspec.structs.replace(
        base.config.sequence,
        min_in_sync=groups[0].min_in_sync,
        lag_limit=10 * UNCOMMITTED_MAX,
        hold_bytes=LOG_BYTES // 2,
        notify_ns=rng.choice((MILLISECOND, base.config.sequence.notify_ns)),
    )
    config = msgspec.structs.replace(base.config, style=style, sequence=sequence)
    return replace(base, hosts=hosts, groups=groups, config=config, deadly=0, roles={})


def _record(rng: random.Random, number: int, hosts: tuple[HostId, ...]) -> GroupRecord:
    policy = rng.choice(POLICIES)
    settings = StreamSettings(
        retain=rng.choice(("", "", "none")),
        order=rng.choice(("total", "total", "total", "set")),
        grace_ms=rng.choice((0, 5, 20)),
        late_join=rng.random() < 0.5,
        recover_first=rng.random() < 0.2,
        recover_ms=rng.choice((60, 200)),
        retry_ms=rng.choice((10, 30)),
        attempts=rng.choice((1, 2)),
        ask_peers=rng.random() < 0.3,
        decider=rng.choice(("", "", *hosts)),
        decide_ms=100,
        status_ms=rng.choice((30, 150)),
        next_messages=rng.choice((1, 3)),
        default=Recover() | Drop() if policy != "strict" else StreamSettings().default,
        give_up_ms=rng.choice((0, 3_000)),
        hold_messages=rng.choice((100_000, 400)),
    )
    kind = BookKind(policy, rng.random() < 0.5, settings)
    is_in_memory = rng.random() < 0.2
    return GroupRecord(
        group=GroupId(number),
        class_name=kind.class_name,
        style="active",
        members=tuple(Placement(host=host, store=StoreId("")) for host in rng.sample(hosts, 3)),
        nonce=Nonce(f"create/{number}"),
        name=f"book-{number}-{policy}",
        min_in_sync=2,
        durability=MEMORY if is_in_memory else DISK,
        on_total_loss=WAIT,
    )


def _judged(rng: random.Random, records: tuple[GroupRecord, ...]) -> Iterator[GroupRecord]:
    """Leave the losses of some groups to another group."""
    for record in records:
        kind = kind_of(record)
        if kind.policy == "none" or rng.random() >= JUDGED:
            yield record
            continue
        settings = msgspec.structs.replace(kind.settings, decider="", decider_group=GROUP)
        kind = msgspec.structs.replace(kind, settings=settings)
        yield msgspec.structs.replace(record, class_name=kind.class_name)


def _cramped(rng: random.Random, records: tuple[GroupRecord, ...]) -> Iterator[GroupRecord]:
    """Leave the members of some groups room for very few messages, and some of these for no more while one of
    them takes a state."""
    for record in records:
        kind = kind_of(record)
        if kind.settings.carries or rng.random() >= CRAMPED:
            yield record
            continue
        room = rng.choice((SUSPENDED_BYTES, SUSPENDED_BYTES, 0))
        settings = msgspec.structs.replace(kind.settings, hold_messages=HOLD_MESSAGES, suspended_bytes=room)
        kind = msgspec.structs.replace(kind, settings=settings)
        yield msgspec.structs.replace(record, class_name=kind.class_name)


def kind_of(record: GroupRecord) -> BookKind:
    return msgspec.json.decode(record.class_name, type=BookKind)


def drawn_sources(world: World, stage: Stage, book: StreamBook) -> None:
    """Draw the sources of all groups and start them."""
    rng = world.rng("sources")
    for record in stage.groups:
        for letter in "xyz"[: rng.choice((1, 1, 2, 3))]:
            stream = f"{letter}{record.group}"
            source = Source(
                world,
                stream,
                stage.hosts,
                finder(world, record.group),
                world.rng(f"source/{stream}"),
                {host: rng.choice(LOSSES) for host in stage.hosts},
                rng.choice((50, 100, 150)) * MILLISECOND,
                rng.choice((0.0, 0.0, 0.02)),
                rng.random() < 0.3,
            )
            book.sources[stream] = source
            source.start()


def group_of(stream: str) -> GroupId:
    return GroupId(int(stream[1:]))
