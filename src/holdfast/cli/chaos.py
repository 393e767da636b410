"""`holdfast chaos`: break something of a domain on this machine, to see it survive."""

import asyncio
import signal
import time
from typing import Literal

import uvloop
from cyclopts import App

from holdfast.agent.status_client import signal_holder
from holdfast.cli.admin import check_host, give_at, here, host_ids_at, order_at
from holdfast.cli.output import talk
from holdfast.cli.where import HERE, Dir, Target, Where
from holdfast.model.admin.groups import ListGroups
from holdfast.model.admin.hosts import BUSY_S_MAX, Deafen, Deafened, KeepBusy, KeptBusy
from holdfast.model.admin.streams import LoseStream, StreamLost
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

BUSY_S = 5.0
PAUSE_S = 3.0
"""Longer than any lease, so that another member takes over."""
PAUSE_S_MAX = 86_400
"""A day: nobody waits longer to see a host continue."""

app = App(name="chaos", help="Break something, to see it survive.")


@app.command(name="kill-primary")
def kill_primary(name: str, *, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Kill the host that is primary of a group, as a crash would (SIGKILL).

    Parameters
    ----------
    name
        The group's name.
    """
    layout = Layout(dir)
    host = _primary(layout, name)
    _signal(layout, host, signal.SIGKILL)
    _say(layout, f"killed {host}, the primary of {name}", f"holdfast group history {name}")
    return 0


@app.command(name="pause-primary")
def pause_primary(name: str, *, seconds: float = PAUSE_S, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Pause the host that is primary of a group (SIGSTOP), and let it continue after a while (SIGCONT).

    Nobody can prove that it is dead, so another member takes over only when its lease has expired. When it
    continues, it must find out that it is no longer primary before it answers anything.

    Parameters
    ----------
    name
        The group's name.
    seconds
        How long it is paused.
    """
    if not 0 < seconds <= PAUSE_S_MAX:  # false for nan as well
        raise InvalidRequest(f"a pause takes more than 0 s and at most {PAUSE_S_MAX} s, not {seconds:g} s")
    layout = Layout(dir)
    host = _primary(layout, name)
    _signal(layout, host, signal.SIGSTOP)
    try:
        what = f"paused {host}, the primary of {name}, for {seconds:g} s"
        _say(layout, what, f"holdfast group history {name}")
        time.sleep(seconds)
    finally:
        signal_holder(layout.host(host), signal.SIGCONT)
    talk.print(f"{host} goes on", highlight=False)
    return 0


@app.command(name="kill-host")
def kill_host(host: str, *, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Kill a host, as a crash would (SIGKILL). Its agent starts it again.

    Parameters
    ----------
    host
        The host.
    """
    layout = Layout(dir)
    _signal(layout, check_host(layout, host), signal.SIGKILL)
    _say(layout, f"killed {host}", "holdfast status")
    return 0


@app.command
def busy(
    host: str, *, how: Literal["spin", "hold"] = "spin", seconds: float = BUSY_S, at: Where = HERE
) -> int:
    """Let a worker process of a host be busy for a while. Calls are answered as before (W4).

    Parameters
    ----------
    host
        The host.
    how
        `spin`: it computes. `hold`: it keeps its interpreter, as a library in C may.
    seconds
        For how long, at most 15.
    """
    if not 0 < seconds <= BUSY_S_MAX:
        raise InvalidRequest(f"a worker can be busy for more than 0 s and at most {BUSY_S_MAX:g} s")
    target = at.target
    order = KeepBusy(how=how, seconds=seconds)
    done = uvloop.run(give_at(target, order, KeptBusy, host=check_host(target, host)))
    said = f"a worker of {done.host}, process {done.pid}, was busy for {done.seconds:.1f} s"
    talk.print(said, highlight=False)
    return 0


@app.command
def cut(one: str, other: str, *, one_way: bool = False, at: Where = HERE) -> int:
    """Cut two hosts off from each other: each drops what it receives from the other, including heartbeats.

    A restarted host hears everybody again.

    Parameters
    ----------
    one
        A host.
    other
        The other host.
    one_way
        Only what OTHER gets from ONE is dropped.
    """
    target = at.target
    first, second = check_host(target, one), check_host(target, other)
    if first == second:
        raise InvalidRequest(f"{one} cannot be cut off from itself")
    uvloop.run(_deafen(target, second, first))
    if not one_way:
        uvloop.run(_deafen(target, first, second))
    what = f"{other} hears nothing of {one}" if one_way else f"{one} and {other} hear nothing of each other"
    _say(target, what, "holdfast status")
    talk.print(
        f"mend it with `holdfast chaos heal {one} {other}{here(target)}`", highlight=False, soft_wrap=True
    )
    return 0


@app.command
def heal(one: str = "", other: str = "", *, at: Where = HERE) -> int:
    """Let hosts hear each other again: two of them, or all.

    Parameters
    ----------
    one
        A host; without it, all cuts are healed.
    other
        The other host.
    """
    target = at.target
    if bool(one) != bool(other):
        raise InvalidRequest("name two hosts, or none to heal every cut")
    pair = [check_host(target, one), check_host(target, other)] if one else []
    healed = uvloop.run(_hear(target, pair))
    talk.print(f"{', '.join(healed)}: every cut among them is healed" if healed else "no host lives here")
    return 0


async def _deafen(target: Target, host: HostId, to: HostId) -> None:
    await give_at(target, Deafen(hosts=(to,)), Deafened, host=host)


async def _hear(target: Target, hosts: list[HostId]) -> list[HostId]:
    """Heal the cuts of those of *hosts*, or of all, that are alive, and return them; a stopped host forgets
    its cuts."""
    hosts = hosts or await host_ids_at(target)
    order = Deafen(hosts=tuple(hosts), is_deaf=False)
    asked = (give_at(target, order, Deafened, host=each) for each in hosts)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, Unavailable):
            raise answer
    return [answer.host for answer in answers if isinstance(answer, Deafened)]


@app.command(name="stream-loss")
def stream_loss(host: str, stream: str, part: str, *, at: Where = HERE) -> int:
    """Let a host throw away a part of the datagrams of a stream, until it is told otherwise or restarted.

    Parameters
    ----------
    host
        The host's id.
    stream
        The stream's name.
    part
        How much, as `1%` or `0.01`; `0` ends it.
    """
    wanted = _part(part)
    order = LoseStream(name=stream, part=wanted)
    done = uvloop.run(give_at(at.target, order, StreamLost, host=HostId(host)))
    talk.print(f"{done.host} throws away {100 * done.part:g} % of {done.name}", markup=False)
    return 0


def _part(text: str) -> float:
    """The part that *text* says. Raises ``InvalidRequest``."""
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:  # false for nan as well
        raise InvalidRequest(f"a part is 0% to 100%, or 0 to 1, not {text!r}")
    return found


def _primary(layout: Layout, name: str) -> HostId:
    (group,) = uvloop.run(order_at(layout, ListGroups(name=name)))
    if group.primary not in layout.read().hosts:
        raise InvalidRequest(f"{group.primary}, the primary of {name}, is not on this machine")
    return group.primary


def _signal(layout: Layout, host: HostId, number: signal.Signals) -> None:
    if not signal_holder(layout.host(host), number):
        raise Unavailable(f"{host} does not run now; `holdfast status` shows when it does")


def _say(target: Target, what: str, watch: str) -> None:
    talk.print(f"{what}; watch with `{watch}{here(target)}`", markup=False, highlight=False, soft_wrap=True)
