"""``holdfast bench``: measure, beside a peer or the machine's limit in the same run."""

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, Literal

from cyclopts import App

from holdfast.bench.all import Verdict, agenda, run_through
from holdfast.bench.measuring.machine_lock import alone
from holdfast.cli.output import Output, print_json, talk
from holdfast.cli.show.bench_tables import (
    SHOWN,
    show_control,
    show_detect,
    show_groups,
    show_growth,
    show_ldap,
    show_path,
    show_results,
    tell_failures,
)
from holdfast.model.errors import InvalidRequest

LdapPart = Literal["searches", "modifies", "memory", "lag", "filling", "beside", "grown"]
StreamPart = Literal["rates", "senders", "latency", "loss", "suspended"]
EXIT_CODES: Final = {Verdict.MET: 0, Verdict.FAILED: 1, Verdict.MISSED: 4}
"""The exit code for the verdict on all benchmarks together."""

app = App(name="bench", help="Measure, beside a peer or the machine's limit.")
_began = time.monotonic()


@app.command
def net(*, rounds: int = 9, seconds: float = 0.4, output: Output = "table") -> None:
    """The native protocol beside a bare uvloop echo of the same frames.

    Parameters
    ----------
    rounds: How often each side is measured; the median ratio is judged.
    seconds: What each side gets in a round.
    output: A table for people, one JSON object for scripts.
    """
    show_results(_measure("net", rounds=rounds, seconds=seconds), output)


@app.command
def log(*, rounds: int = 5, seconds: float = 1.0, output: Output = "table") -> None:
    """Records per second with group commit beside the machine's raw rate of syncs.

    Parameters
    ----------
    rounds: How often each side is measured; the median ratio is judged.
    seconds: What each side gets in a round.
    output: A table for people, one JSON object for scripts.
    """
    show_results(_measure("log", rounds=rounds, seconds=seconds), output)


@app.command
def detect(
    *,
    rounds: int = 20,
    overload_seconds: float = 600.0,
    kinds: list[str] | None = None,
    output: Output = "table",
) -> None:
    """How soon faults are detected and repaired, and how often healthy hosts are suspected under overload.

    Parameters
    ----------
    rounds: How often each fault is caused.
    overload_seconds: How long the machine is loaded with twice what it can do; 0 for not at all.
    kinds: Only these faults: kill -9, SIGSTOP, unreachable, is_alive false, is_alive blocked, loop blocked.
    output: A table for people, one JSON object for scripts.
    """
    where = {"kinds": tuple(kinds or ()), "overload_seconds": overload_seconds}
    show_detect(_measure("detect", where, rounds=rounds), output)


@app.command
def state(
    *,
    megabytes: int = 100,
    callers: int = 32,
    seconds: float = 90.0,
    rounds: int = 5,
    output: Output = "table",
) -> None:
    """A large object: what its checkpoints add to the time of calls, and how long its failover takes.

    Parameters
    ----------
    megabytes: The size of its checkpoints; as Python objects it takes several times that, on each host.
    callers: How many clients call it without pause.
    seconds: How long it is called, through several checkpoints, before its primary is killed.
    rounds: How often its primary is killed.
    output: A table for people, one JSON object for scripts.
    """
    found = _measure("state", megabytes=megabytes, callers=callers, seconds=seconds, rounds=rounds)
    show_results(found, output)


@app.command
def archive(*, size: int = 2000, feed_mb_s: float = 5.0, callers: int = 8, output: Output = "table") -> None:
    """A stored object comes to a fourth host while it is fed and read: calls, memory, and bytes sent.

    Parameters
    ----------
    size: The size of its documents in megabytes.
    feed_mb_s: How fast more are put meanwhile.
    callers: How many clients read without pause.
    output: A table for people, one JSON object for scripts.
    """
    show_results(_measure("archive", size=size, feed_mb_s=feed_mb_s, callers=callers), output)


@app.command
def handover(*, rounds: int = 20, callers: int = 32, output: Output = "table") -> None:
    """How long callers wait while a primary hands its group over.

    Parameters
    ----------
    rounds: The number of handovers.
    callers: How many clients call without pause.
    output: A table for people, one JSON object for scripts.
    """
    show_results(_measure("handover", rounds=rounds, callers=callers), output)


@app.command
def nested(*, rounds: int = 3, calls: int = 500, output: Output = "table") -> None:
    """Concurrent calls that each await another group: an interleaved class beside a plain one.

    Also how soon two groups that wait for each other continue, and how soon a group that waits for an
    unserved group answers queries.

    Parameters
    ----------
    rounds: How often each class is measured.
    calls: How many calls are made concurrently.
    output: A table for people, one JSON object for scripts.
    """
    show_results(_measure("nested", rounds=rounds, calls=calls), output)


@app.command
def busy(*, rounds: int = 3, output: Output = "table") -> None:
    """How late hosts' loops turn while slow methods and worker processes are busy beside them.

    Also whether healthy hosts are suspected meanwhile.

    Parameters
    ----------
    rounds: How often each kind of work is measured, for twenty seconds.
    output: A table for people, one JSON object for scripts.
    """
    show_results(_measure("busy", rounds=rounds), output)


@app.command
def tls(*, rounds: int = 5, seconds: float = 2.0, output: Output = "table") -> None:
    """What TLS costs: the same calls with certificates everywhere, beside plain loopback.

    Parameters
    ----------
    rounds: How often each is measured, in turn.
    seconds: How long each load lasts.
    output: A table for people, one JSON object for scripts.
    """
    show_results(_measure("tls", rounds=rounds, seconds=seconds), output)


@app.command
def path(*, seconds: float = 2.0, output: Output = "table") -> None:
    """What a call costs in each process, counted: Python calls, encodings, system calls, turns, syncs.

    Parameters
    ----------
    seconds: How long each load is counted; its rate says nothing, for everything runs under a profiler.
    output: A table for people, one JSON object for scripts.
    """
    show_path(_measure("path", seconds=seconds), output)


@app.command
def groups(*, rounds: int = 5, seconds: float = 2.0, output: Output = "table") -> None:
    """Groups beside etcd, PySyncObj and Redis, three members each: rate, latency, CPU, failover.

    Parameters
    ----------
    rounds: How often each system is started, measured and loses its leader; they take turns.
    seconds: What each load gets in a round.
    output: A table for people, one JSON object for scripts.
    """
    show_groups(_measure("groups", rounds=rounds, seconds=seconds), output)


@app.command
def growth(*, seconds: float = 2.0, groups: int = 10_000, output: Output = "table") -> None:
    """What calls and idle groups cost as work grows: 1 to 5 members, 64 B to 64 KB, 1 to 10,000 groups.

    Parameters
    ----------
    seconds: What each load gets, and how long idle hosts are watched.
    groups: The largest number of groups.
    output: A table for people, one JSON object for scripts.
    """
    show_growth(_measure("growth", seconds=seconds, groups=groups), output)


@app.command
def claims(
    *, rounds: int = 3, groups: int = 1_000, etcd: list[str] | None = None, output: Output = "table"
) -> None:
    """How soon the last of many groups serves again when the primary of all of them is killed.

    Parameters
    ----------
    rounds: How many domains are created and lose a host.
    groups: How many groups that host is primary of.
    etcd: Endpoints of an etcd to use as the authority; otherwise the embedded one is used.
    output: A table for people, one JSON object for scripts.
    """
    show_results(_measure("claims", {"etcd": tuple(etcd or ())}, rounds=rounds, groups=groups), output)


@app.command
def strength(
    *,
    rounds: int = 1,
    groups: int = 300,
    hosts: int = 5,
    loss_seconds: float = 10.0,
    etcd: list[str] | None = None,
    output: Output = "table",
) -> None:
    """How soon a domain that loses a host for good is at full strength again, and what callers notice.

    Parameters
    ----------
    rounds: How many domains are created and lose a host.
    groups: How many groups of three there are; all are called throughout.
    hosts: How many hosts there are before.
    loss_seconds: A host that is gone for so long is considered lost.
    etcd: Endpoints of an etcd to use as the authority; otherwise the embedded one is used.
    output: A table for people, one JSON object for scripts.
    """
    options = {"rounds": rounds, "groups": groups, "hosts": hosts, "loss_s": loss_seconds}
    show_results(_measure("strength", {"etcd": tuple(etcd or ())}, **options), output)


@app.command
def control(
    *, rounds: int = 3, groups: int = 1_000, etcd: list[str] | None = None, output: Output = "table"
) -> None:
    """Groups created per second as they grow from 10, and how long changes wait for a new coordinator.

    The latter is measured after the coordinator is killed, beside etcd's own leader.

    Parameters
    ----------
    rounds: How often the coordinator is killed at each number of groups, and etcd's leader beside it.
    groups: The largest number of groups.
    etcd: Endpoints of an etcd to use as the authority; otherwise the embedded one is used.
    output: A table for people, one JSON object for scripts.
    """
    show_control(_measure("control", {"etcd": tuple(etcd or ())}, rounds=rounds, groups=groups), output)


@app.command
def ldap(
    *,
    rounds: int = 3,
    seconds: float = 3.0,
    persons: int = 10_000,
    grown: int | None = None,
    part: list[LdapPart] | None = None,
    output: Output = "table",
) -> None:
    """The LDAP door beside slapd and 389-ds: searches, synced modifies, bulk load, memory, CPU time.

    The load is that of 389-ds's ldclt, with the same command line for all.

    Parameters
    ----------
    rounds: How often each server is measured with each load, in turn.
    seconds: What each server gets of a load in a round.
    persons: How many entries each server is loaded with.
    grown: Also search by uid in a directory of so many entries, beside the same with *persons*.
    part: Only this part, or these; without it, all but filling a master anew, which takes minutes.
    output: A table for people, one JSON object for scripts.
    """
    _refuse_nothing({"grown": grown})
    larger: dict[str, Any] = {} if grown is None else {"grown": grown}
    if part:
        larger["parts"] = tuple(part)
    show_ldap(_measure("ldap", larger, rounds=rounds, seconds=seconds, persons=persons), output)


@app.command
def streams(
    *,
    rounds: int = 3,
    messages: int = 100_000,
    part: list[StreamPart] | None = None,
    output: Output = "table",
) -> None:
    """Measure the total order of streams beside corosync's closed process groups, and at 1 % loss.

    Parameters
    ----------
    rounds: How often each side is measured with each load, in turn.
    messages: How many messages are sent in each batched run; a tenth of them one by one.
    part: Only this part, or these; without it, all of them, which takes many minutes.
    output: A table for people, one JSON object for scripts.
    """
    chosen = {"parts": tuple(part)} if part else {}
    show_results(_measure("streams", chosen, rounds=rounds, messages=messages), output)


@app.command(name="all")
def everything(
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    groups: int = 10_000,
    output: Output = "table",
) -> int:
    """Run every benchmark, one after the other.

    The exit code is 0 if every target was met, 4 if one was missed, 1 if something could not be measured.

    Parameters
    ----------
    rounds: The rounds of each benchmark; by default each has its own number.
    seconds: What each side gets in a round, where that applies.
    groups: The largest number of idle groups.
    output: A table for people, one JSON object for scripts.
    """
    _refuse_nothing({"rounds": rounds, "seconds": seconds, "groups": groups})
    parts = agenda(rounds=rounds, seconds=seconds, groups=groups)
    talk.print(
        f"{', '.join(part.name for part in parts)}: about {sum(part.expected_s for part in parts) / 60:.0f} "
        "minutes on a machine that does nothing else"
    )
    run = run_through(parts, lambda part: _measure(part.name, None, **part.options), _progress)
    if output == "json":
        rest = {
            name: {key: each[key] for key in each if key != "results"} for name, each in run.found.items()
        }
        print_json({"results": run.results(), **rest, "failures": run.failures})
    else:
        show_results({"results": run.results(run.found.keys() - SHOWN.keys())}, output)
        for name, show in SHOWN.items():
            if name in run.found:
                show(run.found[name], output)
    tell_failures(run.failures)
    return EXIT_CODES[run.verdict]


def _measure(name: str, where: dict[str, Any] | None = None, **options: float) -> dict[str, Any]:
    """Run ``holdfast.bench.NAME``, loaded only now: each needs a part of Holdfast that others do not."""
    _refuse_nothing(options)
    module = import_module(f"holdfast.bench.{name}")
    with alone(_progress):
        found: dict[str, Any] = getattr(module, f"run_{name}_bench")(
            progress=_progress, **(where or {}), **options
        )
    return found


def _refuse_nothing(options: Mapping[str, float | None]) -> None:
    if any(value is not None and value <= 0 for value in options.values()):
        raise InvalidRequest(f"{', '.join(options)} must be more than nothing")


def _progress(what: str) -> None:
    """Print progress with the elapsed time, so that one can see whether it takes as long as announced."""
    minutes, seconds = divmod(int(time.monotonic() - _began), 60)
    talk.print(f"{minutes:3d}:{seconds:02d}  {what}", highlight=False, soft_wrap=True)
