"""`holdfast up`, `down`, `status`: start, stop and show a domain on this machine."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import uvloop
from cyclopts import Parameter
from rich.console import Group
from rich.live import Live
from rich.text import Text

from holdfast.agent.authority_probe import NATIVE, why_none_answers
from holdfast.agent.machine_setup import check
from holdfast.agent.startup import (
    check_hosts,
    describe,
    hold,
    last_output,
    start_agent,
    wait_until_alive,
    why_not_alive,
)
from holdfast.agent.status_client import (
    AGENT_GRACE_S,
    POLL_S,
    status_of,
    stop_domain,
    stop_orphans,
)
from holdfast.authority.move.place import EtcdAccess
from holdfast.cli.admin import ensure_groups
from holdfast.cli.etcd_flags import Etcd, EtcdFlags
from holdfast.cli.output import Output, Screen, out, print_json, say, talk
from holdfast.cli.show.domain_table import one_line, picture, url_in
from holdfast.cli.show.remote_status import status_at
from holdfast.cli.where import HERE, Dir, Remote, Where
from holdfast.model.admin.groups import CreateGroup
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.node.layout import DIRECTORY_DEFAULT, Description, Layout
from holdfast.node.messages import DomainStatus
from holdfast.storage.lock import holder_of

REFRESH_S = 0.25
START_S = 120.0
"""How long to wait: a busy machine takes its time, and a host that cannot start says so well before."""
EXIT_INTERRUPTED = 130
Answer = TypeVar("Answer")


def up(
    *,
    dir: Dir = DIRECTORY_DEFAULT,
    hosts: int | None = None,
    etcd: Annotated[list[str] | None, Parameter(negative="")] = None,
    etcd_access: Etcd = None,
    app: Path | None = None,
    allow_class: Annotated[list[str] | None, Parameter(negative="")] = None,
    group: Annotated[list[str] | None, Parameter(negative="")] = None,
    chaos: bool = True,
    loss_seconds: float | None = None,
    port_base: int | None = None,
    location: Annotated[list[str] | None, Parameter(negative="")] = None,
    role: Annotated[list[str] | None, Parameter(negative="")] = None,
    set: Annotated[list[str] | None, Parameter(negative="")] = None,
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
    app
        The directory from which the hosts import the classes of groups. Without it, the one that the domain
        was last started with; for a new domain, the current directory. Groups can be made of the classes
        defined there.
    allow_class
        A class of an installed package that groups may also be made of: package.module:Class. Without it,
        those that the domain was last started with.
    group
        A group to create once the domain is up, unless it exists: NAME=package.module:Class.
    chaos
        Whether `holdfast chaos cut` may make hosts drop each other's traffic.
    loss_seconds
        A host that is gone for so long is considered lost, and its members are replaced elsewhere (default
        10, or as the domain was last started).
    port_base
        Let processes listen on fixed ports: the agent on this one, the authority on the next, hosts from the
        tenth on, ten for each (docs/deploying.md). 0: on any free ports. Without it, as the domain was last
        started.
    location
        Where the hosts are, as rack1/m2: a group has no two members in one location while another is free.
        Given several times, the hosts are dealt out over them in turn; HOST=LOCATION is about one host.
        Without it, as before; a host of which nothing was said is a location of its own.
    role
        What the last hosts are for, as directory=2 or groups,search=1: groups, directory, search, streams. A
        host without the role groups houses no ordinary groups. Without it, as before, or groups.
    set
        A setting for the processes that are started now, before those of `holdfast.toml`:
        leases.lease="2 s" (docs/settings.md).
    detach
        Return once every host is alive; stop the domain later with `holdfast down`.
    """
    from holdfast.settings import file as settings_file
    from holdfast.settings.contract import FLAGS

    check_hosts(hosts)
    wanted = [_wanted_group(each) for each in group or ()]
    layout = Layout(dir)
    if set is not None:
        os.environ[FLAGS] = "\n".join(set)  # the processes inherit it
    settings_file.check(layout.directory, os.environ).insist()
    lock = hold(layout)
    try:
        settings_file.apply(layout.directory, os.environ).insist()
        description = describe(
            layout,
            hosts=hosts,
            etcd=etcd or (),
            etcd_access=_access(layout, etcd or (), etcd_access),
            app=app,
            allows_chaos=chaos,
            loss_s=loss_seconds,
            allowed_classes=allow_class,
            port_base=port_base,
            locations=location or (),
            roles=role or (),
        )
        agent = start_agent(layout, with_parent=not detach)
        return uvloop.run(_up(layout, description, agent, wanted, detach=detach))
    finally:
        lock.release()


def _access(layout: Layout, etcd: Sequence[str], flags: EtcdFlags | None) -> EtcdAccess | None:
    if flags is None or not flags.is_given:
        return None
    if not etcd:
        raise InvalidRequest("the --etcd-... flags say how an etcd is reached: name it with --etcd URL")
    return flags.keep(layout.directory, tuple(etcd))


def down(*, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Stop the domain: hosts, then authority, then agent; also what a killed agent left running."""
    layout = Layout(dir)
    was_running = uvloop.run(stop_domain(layout, layout.read()))
    talk.print(f"{layout.directory}: {'stopped' if was_running else 'nothing runs here'}", soft_wrap=True)
    return 0


def status(*, at: Where = HERE, output: Output = "table") -> int:
    """Show the hosts, the authority and the agent of a domain.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    target = at.target
    found = uvloop.run(status_at(target))
    if output == "json":
        print_json(msgspec.structs.replace(found, url=url_in(found)))
        return 0
    out().print(picture(found))
    if found.agent is None:
        said = "no agent of the domain answers" if isinstance(target, Remote) else _why_no_agent(target)
        talk.print(said, soft_wrap=True)
    return 0


async def _up(
    layout: Layout,
    description: Description,
    agent: "subprocess.Popen[bytes]",
    wanted: list[CreateGroup],
    *,
    detach: bool,
) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        status = await unless(stop, start_hosts(layout, description, agent))
        if status is not None:
            await ensure_groups(layout, wanted)
    except HoldfastError:
        await stop_agent(agent)
        raise
    if status is None:
        await stop_agent(agent)
        return EXIT_INTERRUPTED
    is_whole = all(host.alive for host in status.hosts)
    if not is_whole:
        talk.print(why_not_alive(layout, status), markup=False, soft_wrap=True)
    if detach:
        hint = f"stop them with `holdfast down --dir {layout.directory}`"
        talk.print(f"{sum(host.alive for host in status.hosts)} hosts live; {hint}", soft_wrap=True)
        return 0 if is_whole else 1
    try:
        await _show(layout, description, agent, stop)
    finally:
        await stop_agent(agent)
        await stop_orphans(layout, description)  # what a killed agent could not stop
    return 0


def _wanted_group(text: str) -> CreateGroup:
    name, _, class_name = text.partition("=")
    if not name or not class_name:
        raise InvalidRequest(f"{text!r}: a group to create is written NAME=package.module:Class")
    return CreateGroup(name=name, class_name=class_name)


async def unless(stop: asyncio.Event, work: Coroutine[object, object, Answer]) -> Answer | None:
    """What *work* returns or raises; None if *stop* was set first."""
    working, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return None


async def start_hosts(
    layout: Layout, description: Description, agent: "subprocess.Popen[bytes]"
) -> DomainStatus:
    with talk.status("starting ...") as line:

        def progress(status: DomainStatus | None) -> None:
            line.update(_progress(description, status))

        telling = asyncio.create_task(_say_whom_it_waits_for(description))
        try:
            return await wait_until_alive(layout, description, agent, within_s=START_S, progress=progress)
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)


async def _say_whom_it_waits_for(description: Description) -> None:
    """Say so if the authority is elsewhere and does not answer, or if nobody takes this machine's
    certificates: the hosts wait without a word."""
    try:
        check(description)
    except InvalidRequest as error:
        talk.print(f"the hosts wait until this is put right: {error}", markup=False, soft_wrap=True)
    name, endpoints = "etcd", description.etcd_endpoints
    if description.authority_address is not None and not description.serves_authority:
        name, endpoints = "the authority", (f"{NATIVE}://{description.authority_address}",)
    if endpoints and (why := await why_none_answers(endpoints)) is not None:
        said = f"waiting for {name}, which does not answer: {why}; the hosts start when it does"
        talk.print(said, markup=False, soft_wrap=True)


async def _show(
    layout: Layout, description: Description, agent: "subprocess.Popen[bytes]", stop: asyncio.Event
) -> None:
    """Show the domain until told to stop: a live table on a terminal, otherwise a line per change."""
    console = Screen()
    shown = ""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while not stop.is_set():
            if agent.poll() is not None:
                raise Unavailable(f"the agent has ended; it said:\n{last_output(layout, 'agent')}")
            found = await status_of(layout, description)
            if console.is_terminal:
                hint = Text(f"{layout.directory}   Ctrl-C stops the domain", style="dim")
                live.update(Group(picture(found), hint), refresh=True)
            elif (line := one_line(found)) != shown:
                shown = line
                say(line)
            await _wait(stop, REFRESH_S)
    talk.print("stopping ...")


async def stop_agent(agent: "subprocess.Popen[bytes]") -> None:
    """Stop the agent, which first stops the processes that it supervises."""
    if agent.poll() is None:
        agent.terminate()
    try:
        async with asyncio.timeout(AGENT_GRACE_S):
            while agent.poll() is None:
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        agent.kill()
        await asyncio.to_thread(agent.wait)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _progress(description: Description, status: DomainStatus | None) -> Text:
    hosts = status.hosts if status else ()
    ended = "".join(f"; {host.id} {host.last_exit}" for host in hosts if host.last_exit and not host.alive)
    return Text(
        f"starting: {sum(host.alive for host in hosts)} of {len(description.hosts)} hosts live{ended}"
    )


def _why_no_agent(layout: Layout) -> str:
    agent = holder_of(layout.agent_directory)
    if agent is None:
        return f"no agent runs here; start the domain with `holdfast up --dir {layout.directory}`"
    return (
        f"the agent (pid {agent.pid}) does not answer; "
        f"`holdfast down --dir {layout.directory}` stops it and the domain, by force if need be"
    )
