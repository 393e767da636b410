"""`holdfast host list | add | set | restart | drain | undrain | remove`: the hosts of a domain."""

import asyncio
import signal
import sys
import time
from itertools import count

import msgspec
import uvloop

from holdfast.agent.machine_setup import check_host
from holdfast.agent.rolling_restart import RollingRestart, WouldInterrupt
from holdfast.agent.status_client import signal_holder
from holdfast.cli.admin import Given, give_at
from holdfast.cli.output import Output, is_agreed, print_json, print_table, talk
from holdfast.cli.where import HERE, Dir, Target, Where
from holdfast.model.admin.groups import Order
from holdfast.model.admin.hosts import DrainHost, HostInfo, HostList, ListHosts, RemoveHost, ReturnHost
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.host_roles import GROUPS, parsed_roles
from holdfast.model.ids import HostId
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.storage.lock import holder_of

POLL_S = 0.5
PATIENCE_S = 5.0
"""After so much time without progress, the person who waits is told what is waited for."""


def list_(*, at: Where = HERE, output: Output = "table") -> int:
    """Show the hosts, and their members.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(at.target, ListHosts(), HostList))
    if output == "json":
        print_json(found)
        return 0
    print_table(
        ("host", "location", "roles", "lives", "members", "primary of", "leaving", ""),
        (
            (
                each.host,
                each.location or "-",
                ",".join(each.roles) or "-",
                "yes" if each.is_alive else "no",
                each.members,
                each.primaries,
                each.leaving,
                "is being emptied" if each.is_draining else "",
            )
            for each in found.hosts
        ),
    )
    talk.print(f"{found.manager} manages the domain" if found.manager else "nobody manages the domain")
    return 0


def add(host: str, *, location: str | None = None, roles: str = GROUPS, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Add a host on this machine to the domain.

    New groups and missing members may be placed on it; no existing member is moved there.

    Parameters
    ----------
    host
        Its id, which no host of the domain has. The name of a host that was removed can be used again; the
        new one begins with nothing, and the files of the old one are kept under another name.
    location
        Where it is, as rack1/m2: a group has no two members in one location while another is free. Without
        it, where its machine is; a host of which nothing is said is a location of its own.
    roles
        What it is for, separated by commas: groups, directory, search, streams.
    """
    layout = Layout(dir)
    description = layout.read()
    if host in description.hosts:
        raise InvalidRequest(f"there is a host {host!r} in this domain; take another name")
    grown = msgspec.structs.replace(description, hosts=(*description.hosts, HostId(host)))
    grown = grown.with_ports(grown.port_base)
    grown = grown.with_host(HostId(host), location=location, roles=parsed_roles(roles))
    if problems := grown.problems():
        raise InvalidRequest("; ".join(problems))
    check_host(grown, HostId(host))
    _free_name(layout, HostId(host))
    layout.prepare(grown)
    layout.write(grown)
    is_running = signal_holder(layout.agent_directory, signal.SIGHUP)
    when = "`holdfast status` shows when it lives" if is_running else "it starts with `holdfast up`"
    talk.print(f"{host} is added; {when}", markup=False)
    return 0


def _free_name(layout: Layout, host: HostId) -> None:
    """See to it that the name of a removed host can be used again, and its store is not.

    Raises ``InvalidRequest`` while its process runs, ``Unavailable`` while the authority knows of one.
    """
    files = layout.host(host)
    if holder_of(files) is not None:
        raise InvalidRequest(f"{host} was removed and its process still runs; try again when it has ended")
    if files.exists() or holder_of(layout.agent_directory) is not None:
        uvloop.run(give_at(layout, ReturnHost(host=host), HostList))
    if files.exists():
        number = next(each for each in count(1) if not files.with_name(f"{host}.removed-{each}").exists())
        files.rename(files.with_name(f"{host}.removed-{number}"))
        talk.print(f"what the old {host} held is in hosts/{host}.removed-{number}", markup=False)


def set_(
    host: str,
    *,
    location: str | None = None,
    roles: str | None = None,
    restart: bool = True,
    force: bool = False,
    dir: Dir = DIRECTORY_DEFAULT,
) -> int:
    """Say where a host of this machine is, and what it is for.

    A host that runs is restarted in order for that, and no call fails. Members that are then where they
    should not be are moved one by one.

    Parameters
    ----------
    host
        The host.
    location
        Where it is, as rack1/m2; '' is where its machine is.
    roles
        What it is for, separated by commas: groups, directory, search, streams.
    restart
        Restart it now. Otherwise it is what it was until it is restarted.
    force
        Restart it also if a group is without service until it is back.
    """
    layout = Layout(dir)
    description = layout.read()
    if host not in description.hosts:
        said = f"this machine has no host {host!r}; it has: {', '.join(description.hosts)}"
        raise InvalidRequest(said)
    if location is None and roles is None:
        raise InvalidRequest("say --location, --roles or both")
    wanted = description.with_host(
        HostId(host), location=location, roles=None if roles is None else parsed_roles(roles)
    )
    if problems := wanted.problems():
        raise InvalidRequest("; ".join(problems))
    if wanted == description:
        talk.print(f"{host} is that already", markup=False)
        return 0
    layout.write(wanted)
    is_running = holder_of(layout.host(HostId(host))) is not None
    if is_running and restart:
        try:
            uvloop.run(_restarting(layout).one(HostId(host), is_forced=force))
        except WouldInterrupt:
            layout.write(description)  # nothing was changed
            raise
    where, what = wanted.location_of(HostId(host)) or "a location of its own", wanted.roles_of(HostId(host))
    when = "" if restart or not is_running else ", once it is restarted"
    talk.print(f"{host}: {where}, for {', '.join(what)}{when}", markup=False, soft_wrap=True)
    return 0


def drain(host: str, *, wait: bool = True, at: Where = HERE, output: Output = "table") -> int:
    """Move every member off a host: each is first replaced elsewhere, and no call fails.

    Parameters
    ----------
    host
        The host to drain. It takes no members until `holdfast host undrain`.
    wait
        Wait until it is empty, and show the progress; Ctrl-C ends the waiting, not the draining.
    output
        `table` for people, `json` for machines.
    """
    info = uvloop.run(drained(at.target, HostId(host), wait=wait))
    if output == "json":
        print_json(info)
    return 0


def restart(host: str, *, force: bool = False, at: Where = HERE) -> int:
    """Restart a host: it hands over its groups and ends, and whoever supervises it starts it again.

    Waits until its members are in sync again. No call fails.

    Parameters
    ----------
    host
        The host.
    force
        Also if a group would be without service until the host is back.
    """
    uvloop.run(_restarting(at.target).one(HostId(host), is_forced=force))
    return 0


def restart_all(*, rolling: bool = False, force: bool = False, at: Where = HERE) -> int:
    """Restart every host of the domain, one after the other, each back in sync before the next.

    It is safe to interrupt; run it again to restart all of them.

    Parameters
    ----------
    rolling
        One host at a time. There is no other way to do it while groups serve.
    force
        Also if a group would be without service for a while, or a host does not live.
    """
    if not rolling:
        said = "say --rolling to restart all hosts one after the other"
        raise InvalidRequest(f"{said}; `holdfast host restart NAME` restarts one")
    hosts = uvloop.run(_restarting(at.target).all(is_forced=force))
    talk.print(f"restarted: {', '.join(hosts)}", markup=False, soft_wrap=True)
    return 0


def _restarting(target: Target) -> RollingRestart:
    async def give(wanted: Order, kind: type[Given], *, host: HostId | None = None) -> Given:
        return await give_at(target, wanted, kind, host=host)

    def say(line: str) -> None:
        talk.print(line, markup=False, highlight=False, soft_wrap=True)

    return RollingRestart(give, say)


def undrain(host: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Let a host take members again. Those that have left do not come back by themselves.

    Parameters
    ----------
    host
        The host.
    output
        `table` for people, `json` for machines.
    """
    order = DrainHost(host=HostId(host), is_draining=False)
    info = _of(uvloop.run(give_at(at.target, order, HostList)), HostId(host))
    if output == "json":
        print_json(info)
    else:
        talk.print(f"{host} takes members again", markup=False)
    return 0


def remove(
    host: str,
    *,
    lost: bool = False,
    yes: bool = False,
    dir: Dir = DIRECTORY_DEFAULT,
    output: Output = "table",
) -> int:
    """Remove a host from the domain, and end its process. It must be empty: see `holdfast host drain`.

    Parameters
    ----------
    host
        The host. Its files stay where they are.
    lost
        It never comes back, and its data is lost: its members are replaced elsewhere.
    yes
        Do not ask.
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    if not yes and not _is_agreed(host):
        talk.print("nothing was changed")
        return 1
    found = uvloop.run(give_at(layout, RemoveHost(host=HostId(host), is_lost=lost), HostList))
    description = layout.read()
    left = description.without_host(HostId(host))
    layout.write(left)
    signal_holder(layout.agent_directory, signal.SIGHUP)
    if output == "json":
        print_json(found)
    else:
        talk.print(f"{host} is removed; there are: {', '.join(left.hosts)}", markup=False)
    return 0


def _is_agreed(host: str) -> bool:
    """Ask the person; refuse if there is none to ask."""
    if not sys.stdin.isatty():
        raise InvalidRequest("nobody is there to be asked; say --yes if this is meant")
    return is_agreed(f"Remove {host} from the domain for good? [y/N] ")


async def drained(target: Target, host: HostId, *, wait: bool) -> HostInfo:
    """Move every member off a host, and say how far that is."""
    info = _of(await give_at(target, DrainHost(host=host), HostList), host)
    said, said_at, is_told = "", time.monotonic(), False
    while True:
        left = info.members + info.leaving
        says = f"{left} to go, primary of {info.primaries}" if left else "it is empty"
        if says != said:
            said, said_at = says, time.monotonic()
            talk.print(f"{host}: {says}", markup=False)
        elif not is_told and time.monotonic() - said_at > PATIENCE_S:
            is_told = True
            talk.print(
                f"{host}: waits for another host that can take what is left; `holdfast explain GROUP` says "
                "what a group lacks, and one more machine or host may be it. Ctrl-C ends the waiting",
                markup=False,
                soft_wrap=True,
            )
        if not wait or not left:
            return info
        await asyncio.sleep(POLL_S)
        try:
            found = await give_at(target, ListHosts(), HostList)
        except HoldfastError as error:
            talk.print(f"{host}: {error}", markup=False)
        else:
            info = _of(found, host)


def _of(found: HostList, host: HostId) -> HostInfo:
    for each in found.hosts:
        if each.host == host:
            return each
    raise InvalidRequest(f"{host} is of the domain no more; `holdfast host list` shows which are")
