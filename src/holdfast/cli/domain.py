"""`holdfast up`, `down`, `status`: a domain on this machine."""

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Annotated

import uvloop
from cyclopts import Parameter
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.cli.output import Output, print_json, talk
from holdfast.model.errors import Unavailable
from holdfast.net import NotConnected
from holdfast.node.asking import ask_agent, ask_to_stop, status_of
from holdfast.node.layout import DIRECTORY_DEFAULT, Description, Layout
from holdfast.node.messages import DomainStatus, HostStatus
from holdfast.node.starting import describe, last_output, refuse_if_held, start_agent, wait_until_alive

REFRESH_S = 0.25
START_S = 30.0
STOP_S = 30.0

Dir = Annotated[Path, Parameter(name="--dir", help="The domain's directory.")]


def up(
    *,
    dir: Dir = DIRECTORY_DEFAULT,
    hosts: int | None = None,
    etcd: Annotated[list[str] | None, Parameter(negative="")] = None,
    detach: Annotated[bool, Parameter(alias="-d", negative="")] = False,
) -> int:
    """Start a domain on this machine: an authority, an agent and three hosts, as processes of their own.

    Stays in the foreground with a live table until Ctrl-C, which stops everything in order.

    Parameters
    ----------
    hosts
        How many hosts a new domain gets (default 3).
    etcd
        Endpoints of an etcd to use as authority instead of the embedded one, e.g. http://127.0.0.1:2379.
    detach
        Return once every host lives; stop the domain later with `holdfast down`.
    """
    layout = Layout(dir)
    refuse_if_held(layout)
    description = describe(layout, hosts=hosts, etcd=etcd or ())
    agent = start_agent(layout, with_parent=not detach)
    return uvloop.run(_up(layout, description, agent, detach=detach))


def down(*, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Stop the domain: hosts, then authority, then agent."""
    layout = Layout(dir)
    description = layout.read()
    try:
        uvloop.run(ask_to_stop(description, within_s=STOP_S))
    except NotConnected:
        talk.print(f"{layout.directory}: no agent runs here; nothing to stop")
        return 0
    talk.print(f"{layout.directory}: stopped")
    return 0


def status(*, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Show the hosts, the authority and the agent of a domain.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    description = layout.read()
    found = uvloop.run(status_of(description))
    if output == "json":
        print_json(found)
        return 0
    Console().print(_picture(found))
    if found.agent is None:
        talk.print(f"no agent runs here; start the domain with `holdfast up --dir {layout.directory}`")
    return 0


async def _up(
    layout: Layout, description: Description, agent: "subprocess.Popen[bytes]", *, detach: bool
) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    starting = asyncio.create_task(_start(layout, description, agent))
    interrupted = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, interrupted), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done() or starting.exception() is not None:
        starting.cancel()
        interrupted.cancel()
        await _stop(agent)
        return 130 if stop.is_set() else _raise(starting)
    interrupted.cancel()
    if detach:
        talk.print(
            f"{len(description.hosts)} hosts live; stop them with `holdfast down --dir {layout.directory}`"
        )
        return 0
    try:
        await _show(layout, description, agent, stop)
    finally:
        await _stop(agent)
    return 0


def _raise(task: "asyncio.Task[DomainStatus]") -> int:
    task.result()
    return 1


async def _start(layout: Layout, description: Description, agent: "subprocess.Popen[bytes]") -> DomainStatus:
    with talk.status("starting ...") as line:

        def progress(status: DomainStatus | None) -> None:
            alive = sum(host.alive for host in status.hosts) if status else 0
            line.update(f"starting: {alive} of {len(description.hosts)} hosts live")

        return await wait_until_alive(layout, description, agent, within_s=START_S, progress=progress)


async def _show(
    layout: Layout, description: Description, agent: "subprocess.Popen[bytes]", stop: asyncio.Event
) -> None:
    """Show the domain until told to stop: a live table on a terminal, a line per change elsewhere."""
    console = Console()
    shown = ""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while not stop.is_set():
            if agent.poll() is not None:
                raise Unavailable(f"the agent has ended; it said:\n{last_output(layout, 'agent')}")
            found = await ask_agent(description)
            if console.is_terminal:
                hint = Text(f"{layout.directory}   Ctrl-C stops the domain", style="dim")
                live.update(Group(_picture(found), hint), refresh=True)
            elif (line := _one_line(found)) != shown:
                shown = line
                print(line, flush=True)
            await _wait(stop, REFRESH_S)
    talk.print("stopping ...")


async def _stop(agent: "subprocess.Popen[bytes]") -> None:
    """Stop the agent, which stops its wards first."""
    if agent.poll() is None:
        agent.terminate()
    await asyncio.to_thread(agent.wait)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _picture(status: DomainStatus) -> Table:
    table = Table(
        *("host", "state", "incarnation", "pid", "restarts", "up", "address", "hears", "last exit"),
        title=_title(status),
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    for host in status.hosts:
        table.add_row(*_row(host))
    return table


def _title(status: DomainStatus) -> Text:
    authority = status.authority
    state = "alive" if authority.alive else "DOWN"
    return Text.assemble(
        f"{status.domain}   authority: {authority.kind} at {authority.address} ",
        (state, "green" if authority.alive else "red"),
    )


def _row(host: HostStatus) -> list[str | Text]:
    heard = [peer for peer in host.report.peers if not peer.silent] if host.report else []
    known = len(host.report.peers) if host.report else 0
    return [
        host.id,
        Text(host.state, style="green" if host.alive else "yellow" if host.pid else "red"),
        str(host.incarnation or "-"),
        str(host.pid or "-"),
        str(host.restarts),
        f"{host.uptime_s:.0f} s" if host.uptime_s is not None else "-",
        host.address or "-",
        f"{len(heard)} of {known}",
        host.last_exit or "-",
    ]


def _one_line(status: DomainStatus) -> str:
    hosts = ", ".join(f"{host.id} {host.state} (incarnation {host.incarnation})" for host in status.hosts)
    return f"authority {'alive' if status.authority.alive else 'DOWN'}; {hosts}"
