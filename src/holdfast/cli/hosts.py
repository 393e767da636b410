"""`holdfast host list | add | drain | undrain | remove`: the hosts of a domain."""

import asyncio
import signal
import sys
from itertools import count

import msgspec
import uvloop

from holdfast.agent.status_client import signal_holder
from holdfast.cli.admin import give_at
from holdfast.cli.domain import Dir
from holdfast.cli.output import Output, is_agreed, print_json, print_table, talk
from holdfast.model.admin.hosts import DrainHost, HostInfo, HostList, ListHosts, RemoveHost, ReturnHost
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import HostId
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.storage.lock import holder_of

POLL_S = 0.5


def list_(*, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Show the hosts, and their members.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(Layout(dir), ListHosts(), HostList))
    if output == "json":
        print_json(found)
        return 0
    print_table(
        ("host", "location", "lives", "members", "primary of", "leaving", ""),
        (
            (
                each.host,
                each.location or "-",
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


def add(host: str, *, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Add a host on this machine to the domain.

    New groups and missing members may be placed on it; no existing member is moved there.

    Parameters
    ----------
    host
        Its id, which no host of the domain has. The name of a host that was removed can be used again; the
        new one begins with nothing, and the files of the old one are kept under another name.
    """
    layout = Layout(dir)
    description = layout.read()
    if host in description.hosts:
        raise InvalidRequest(f"there is a host {host!r} in this domain; take another name")
    _free_name(layout, HostId(host))
    grown = msgspec.structs.replace(description, hosts=(*description.hosts, HostId(host)))
    if problems := grown.problems():
        raise InvalidRequest("; ".join(problems))
    layout.prepare(grown)
    layout.write(grown)
    is_running = signal_holder(layout.agent_directory, signal.SIGHUP)
    when = "`holdfast status` shows when it lives" if is_running else "it starts with `holdfast up`"
    talk.print(f"{host} is added; {when}", markup=False)
    return 0


def _free_name(layout: Layout, host: HostId) -> None:
    """See to it that the name of a removed host can be used again, and its store is not.

    Raises ``InvalidRequest`` while its process runs, and ``Unavailable`` while groups know the old host.
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


def drain(host: str, *, wait: bool = True, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
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
    info = uvloop.run(_drain(Layout(dir), HostId(host), wait=wait))
    if output == "json":
        print_json(info)
    return 0


def undrain(host: str, *, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Let a host take members again. Those that have left do not come back by themselves.

    Parameters
    ----------
    host
        The host.
    output
        `table` for people, `json` for machines.
    """
    order = DrainHost(host=HostId(host), is_draining=False)
    info = _of(uvloop.run(give_at(Layout(dir), order, HostList)), HostId(host))
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
    left = tuple(each for each in description.hosts if each != host)
    layout.write(msgspec.structs.replace(description, hosts=left))
    signal_holder(layout.agent_directory, signal.SIGHUP)
    if output == "json":
        print_json(found)
    else:
        talk.print(f"{host} is removed; there are: {', '.join(left)}", markup=False)
    return 0


def _is_agreed(host: str) -> bool:
    """Ask the person; refuse if there is none to ask."""
    if not sys.stdin.isatty():
        raise InvalidRequest("nobody is there to be asked; say --yes if this is meant")
    return is_agreed(f"Remove {host} from the domain for good? [y/N] ")


async def _drain(layout: Layout, host: HostId, *, wait: bool) -> HostInfo:
    info = _of(await give_at(layout, DrainHost(host=host), HostList), host)
    said = ""
    while True:
        left = info.members + info.leaving
        says = f"{left} to go, primary of {info.primaries}" if left else "it is empty"
        if says != said:
            said = says
            talk.print(f"{host}: {says}", markup=False)
        if not wait or not left:
            return info
        await asyncio.sleep(POLL_S)
        try:
            found = await give_at(layout, ListHosts(), HostList)
        except HoldfastError as error:
            talk.print(f"{host}: {error}", markup=False)
        else:
            info = _of(found, host)


def _of(found: HostList, host: HostId) -> HostInfo:
    for each in found.hosts:
        if each.host == host:
            return each
    raise InvalidRequest(f"{host} is of the domain no more; `holdfast host list` shows which are")
