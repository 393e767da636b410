"""`holdfast directory status`, `lag`, `ruv`: what the masters of a directory say of each other."""

from collections.abc import Callable, Iterable, Iterator

import uvloop

from holdfast.cli.directory.masters import Master, directories_at
from holdfast.cli.output import Output, print_json, print_table, say, talk
from holdfast.cli.where import HERE, Where
from holdfast.clock.vector import Vector
from holdfast.directory.hosting.orders import LinkInfo


def status(*, suffix: str | None = None, at: Where = HERE, output: Output = "table") -> int:
    """Show the whole topology: each master with its links, and how far each peer is behind, as measured.

    The lag is the time from a commit at the master to the peer's word that the change is on its disk.

    Parameters
    ----------
    suffix
        Of this directory only; without it, of all that the domain has.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(directories_at(at.target, suffix))
    if output == "json":
        print_json([as_json(each) for masters in found.values() for each in masters])
        return 0
    _print(
        found,
        ("master", "replica", "state", "ldap", "peer", "link", "lag ms p50", "p99", "behind ms", ""),
        _rows,
    )
    for each in (each for masters in found.values() for each in masters):
        if each.info is not None and each.info.needs_initialisation:
            numbers = ", ".join(map(str, each.info.needs_initialisation))
            talk.print(
                f"{each.host} has trimmed what replica {numbers} lacks: it needs initialisation "
                "(`holdfast directory initialise`)",
                soft_wrap=True,
            )
    return 0


def lag(*, suffix: str | None = None, at: Where = HERE, output: Output = "table") -> int:
    """Show how far each master's peers are behind it, in milliseconds as measured.

    Parameters
    ----------
    suffix
        Of this directory only; without it, of all that the domain has.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(directories_at(at.target, suffix))
    if output == "json":
        print_json(
            [
                {
                    "suffix": name,
                    "from": each.host,
                    "to": link.peer,
                    "p50_ms": link.lag_p50_ms,
                    "p99_ms": link.lag_p99_ms,
                    "behind_ms": link.behind_ms,
                }
                for name, masters in found.items()
                for each in masters
                for link in _links(each)
            ]
        )
        return 0
    _print(
        found,
        ("from", "to", "lag ms p50", "p99", "behind ms"),
        lambda each: ((each.host, link.peer, *_lag(link)) for link in _links(each)),
    )
    return 0


def ruv(*, suffix: str | None = None, at: Where = HERE, output: Output = "table") -> int:
    """Show each master's vector: the newest change that it has of each replica.

    Parameters
    ----------
    suffix
        Of this directory only; without it, of all that the domain has.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(directories_at(at.target, suffix))
    if output == "json":
        print_json(
            [
                {"suffix": name, "master": each.host, "replica": each.info.replica, "ruv": each.info.vector}
                for name, masters in found.items()
                for each in masters
                if each.info is not None and each.info.vector
            ]
        )
        return 0
    _print(found, ("master", "replica", "of replica", "newest change", "at"), _vector)
    return 0


def _print(
    found: dict[str, list[Master]],
    columns: tuple[str, ...],
    rows: Callable[[Master], Iterable[tuple[object, ...]]],
) -> None:
    """One table for each suffix, with its name above it if there are several."""
    for suffix, masters in found.items():
        if len(found) > 1:
            say(suffix)
        print_table(columns, (row for each in masters for row in rows(each)))


def _links(master: Master) -> tuple[LinkInfo, ...]:
    return () if master.info is None else master.info.links


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


def _vector(master: Master) -> Iterator[tuple[object, ...]]:
    info = master.info
    if info is None or not info.vector:
        return
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
