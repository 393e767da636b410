"""`holdfast directory status`, `lag`, `ruv`: what the masters of a directory say of each other."""

from collections.abc import Iterator

import uvloop

from holdfast.cli.directory.masters import Master, masters_at
from holdfast.cli.output import Output, print_json, print_table, talk
from holdfast.cli.where import HERE, Where
from holdfast.clock.vector import Vector
from holdfast.directory.hosting.orders import LinkInfo, ReplicaInfo


def status(*, at: Where = HERE, output: Output = "table") -> int:
    """Show the whole topology: each master with its links, and how far each peer is behind, as measured.

    The lag is the time from a commit at the master to the peer's word that the change is on its disk.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(masters_at(at.target))
    if output == "json":
        print_json([as_json(each) for each in found])
        return 0
    print_table(
        ("master", "replica", "state", "ldap", "peer", "link", "lag ms p50", "p99", "behind ms", ""),
        (row for each in found for row in _rows(each)),
    )
    for each in found:
        if each.info is not None and each.info.needs_initialisation:
            numbers = ", ".join(map(str, each.info.needs_initialisation))
            talk.print(
                f"{each.host} has trimmed what replica {numbers} lacks: it needs initialisation "
                "(`holdfast directory initialise`)",
                soft_wrap=True,
            )
    return 0


def lag(*, at: Where = HERE, output: Output = "table") -> int:
    """Show how far each master's peers are behind it, in milliseconds as measured.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(masters_at(at.target))
    rows = [(each.host, link) for each in found if each.info is not None for link in each.info.links]
    if output == "json":
        print_json(
            [
                {
                    "from": host,
                    "to": link.peer,
                    "p50_ms": link.lag_p50_ms,
                    "p99_ms": link.lag_p99_ms,
                    "behind_ms": link.behind_ms,
                }
                for host, link in rows
            ]
        )
        return 0
    print_table(
        ("from", "to", "lag ms p50", "p99", "behind ms"),
        ((host, link.peer, *_lag(link)) for host, link in rows),
    )
    return 0


def ruv(*, at: Where = HERE, output: Output = "table") -> int:
    """Show each master's vector: the newest change that it has of each replica.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    found = [each.info for each in uvloop.run(masters_at(at.target)) if each.info is not None]
    known = [each for each in found if each.vector]
    if output == "json":
        print_json([{"master": each.host, "replica": each.replica, "ruv": each.vector} for each in known])
        return 0
    print_table(
        ("master", "replica", "of replica", "newest change", "at"),
        (row for each in known for row in _vector(each)),
    )
    return 0


def _rows(master: Master) -> Iterator[tuple[object, ...]]:
    info = master.info
    if info is None:
        yield (master.host, "-", "gone" if not master.is_alive else "unknown", "-", *("-",) * 5, master.why)
        return
    state = info.state
    if info.copied_bytes:
        state = f"{state} ({info.copied_bytes / (1 << 20):.1f} MiB)"
    if info.is_read_only:
        state = f"{state}, read-only"
    head: tuple[object, ...] = (master.host, info.replica or "-", state, master.ldap or "-")
    if not info.links:
        yield (*head, *("-",) * 5, info.problem)
    for link in info.links:
        yield (*head, link.peer, link.state, *_lag(link), link.problem or info.problem)
        head = ("",) * 4


def _lag(link: LinkInfo) -> tuple[object, ...]:
    return (
        "-" if link.lag_p50_ms is None else f"{link.lag_p50_ms:.1f}",
        "-" if link.lag_p99_ms is None else f"{link.lag_p99_ms:.1f}",
        f"{link.behind_ms:.0f}",
    )


def _vector(info: ReplicaInfo) -> Iterator[tuple[object, ...]]:
    head: tuple[object, ...] = (info.host, info.replica or "-")
    for csn in Vector.parse(info.vector):
        yield (*head, csn.replica, csn.text(), csn.describe())
        head = ("", "")


def as_json(master: Master) -> dict[str, object]:
    """One master as `status --output json` shows it."""
    return {
        "master": master.host,
        "alive": master.is_alive,
        "pid": master.pid,
        "ldap": master.ldap,
        "ldaps": master.ldaps,
        "why": master.why,
        "replica": master.info,
    }
