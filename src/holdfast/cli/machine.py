"""`holdfast machine init | show | list | set | leave | remove`: the machines of a domain on several."""

import signal
import sys
from pathlib import Path
from typing import Any

import uvloop
from cyclopts import App

from holdfast.agent.machine_setup import (
    changed,
    check_is_new,
    found_or_join,
    has_left,
    machines_of,
    new_machine,
    strike_out,
)
from holdfast.agent.status_client import signal_holder, stop_domain
from holdfast.authority.machines import MachineRecord
from holdfast.authority.sessions import Session
from holdfast.cli.admin import give_at, here
from holdfast.cli.etcd_flags import Etcd
from holdfast.cli.hosts import drained
from holdfast.cli.output import Output, is_agreed, print_json, print_table, talk
from holdfast.cli.where import Dir
from holdfast.client.admin_client import give
from holdfast.machine.files import make_private
from holdfast.model.admin.hosts import HostInfo, HostList, ListHosts, RemoveHost, ReturnHost
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address
from holdfast.net.secret_file import SECRET_FILE, ensure_secret
from holdfast.node.endpoints import admin_endpoint
from holdfast.node.layout import DIRECTORY_DEFAULT, Description, Layout
from holdfast.storage.lock import holder_of

app = App(name="machine", help="Let machines join and leave a domain.")


@app.command
def init(
    *,
    domain: str,
    listen: str,
    location: str,
    certs: Path | None = None,
    dir: Dir = DIRECTORY_DEFAULT,
    name: str = "",
    hosts: int = 1,
    advertise: str = "",
    insecure: bool = False,
    app: Path | None = None,
    etcd: Etcd = None,
    output: Output = "table",
) -> int:
    """Describe this machine and let it join a domain; `holdfast up` then starts it.

    The first machine of a domain with an embedded authority is the one whose address the URL names. Start it
    before the others join.

    Parameters
    ----------
    domain
        The domain by its authority: holdfast://HOST:PORT/DOMAIN for an embedded one, or
        etcd://HOST:PORT,HOST:PORT,HOST:PORT/DOMAIN.
    listen
        The name or address that its processes listen on, and the agent's port (7400 unless given).
    location
        Where the machine is, as rack1/m2: members of a group are placed in different locations.
    certs
        This machine's certificates, made by `holdfast certs machine`.
    name
        Its name in the domain; without it, the last part of its location.
    hosts
        How many hosts it has. With 0 it has nothing but the authority.
    advertise
        The name or address under which other machines reach it, if that is not where it listens.
    insecure
        Use plain TCP between machines: whoever is on the way can read and change everything.
    app
        The directory from which its hosts import the classes of groups (default: the current one).
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    check_is_new(layout)
    description = new_machine(
        domain,
        listen=listen,
        location=location,
        name=name,
        hosts=hosts,
        advertise=advertise,
        certs=certs,
        insecure=insecure,
        app=app,
        etcd_access=etcd.keep(layout.directory, (domain,)) if etcd is not None and etcd.is_given else None,
    )
    if description.authority_listens is None:
        _see_to_secret(layout, description)
        talk.print(f"asking the authority at {_authority(description)} to let {description.machine} join ...")
        uvloop.run(_take_names_back(layout, description))
    uvloop.run(found_or_join(layout, description))
    if output == "json":
        print_json(_shown(description))
    else:
        did = "is described" if description.authority_listens is not None else "has joined"
        talk.print(f"{description.machine} {did}; start it with `holdfast up{here(layout)}`", soft_wrap=True)
    return 0


@app.command
def show(*, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Show what this machine is in its domain.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    shown = _shown(_machine(Layout(dir)))
    if output == "json":
        print_json(shown)
        return 0
    print_table(("", ""), [(name, _words(value)) for name, value in shown.items()])
    return 0


@app.command(name="list")
def list_(*, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Show the machines of the domain, as its authority knows them.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    description = _machine(layout)
    found = uvloop.run(machines_of(layout, description))
    rows = [_listed(record, sessions, description.machine) for record, sessions in found]
    if output == "json":
        print_json({"domain": description.domain, "machines": rows})
        return 0
    columns = ("machine", "location", "agent", "hosts", "live", "")
    print_table(columns, [(*map(_words, list(row.values())[:5]), _notes(row)) for row in rows])
    return 0


@app.command(name="set")
def set_(
    *,
    domain: str | None = None,
    listen: str | None = None,
    advertise: str | None = None,
    location: str | None = None,
    certs: Path | None = None,
    insecure: bool | None = None,
    name: str | None = None,
    dir: Dir = DIRECTORY_DEFAULT,
    output: Output = "table",
) -> int:
    """Change what this machine is: it has moved to another address, or has other certificates.

    Parameters
    ----------
    domain
        The URL of the authority, if that has moved. Running processes look it up by themselves.
    listen
        The name or address that its processes listen on from their next start on.
    advertise
        The name or address under which others reach it; empty if that is where it listens.
    location
        Where it is now; its hosts need certificates for that location.
    certs
        The directory of its certificates. New files in the same directory need no command.
    insecure
        Use plain TCP between machines.
    name
        Gives a name to the machine of a domain on one machine, so that others can join.
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    before = layout.read()
    after = changed(
        before,
        url=domain,
        listen=listen,
        advertise=advertise,
        location=location,
        certs=certs,
        insecure=insecure,
        name=name,
    )
    layout.write(after)
    is_running = signal_holder(layout.agent_directory, signal.SIGHUP)
    if output == "json":
        print_json(_shown(after))
        return 0
    if before.authority_address != after.authority_address and after.authority_listens is not None:
        url = f"holdfast://{after.authority_address}/{after.domain}"
        talk.print(f"on the other machines: holdfast machine set --domain {url}", soft_wrap=True)
    moved = (before.agent_address, before.advertise) != (after.agent_address, after.advertise)
    if is_running and (moved or before.location != after.location or before.certs != after.certs):
        talk.print("its processes run as before until `holdfast down` and `holdfast up`", soft_wrap=True)
    return 0


@app.command
def leave(*, yes: bool = False, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Let this machine leave the domain: move its members elsewhere, remove its hosts, stop its processes.

    Parameters
    ----------
    yes
        Do not ask.
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    description = _machine(layout)
    if description.authority_listens is not None:
        raise InvalidRequest(
            f"the domain's authority is on {description.machine}: the domain would end with it. Move the "
            "authority to an etcd first"
        )
    if not yes and not _is_agreed(f"Let {description.machine} leave {description.domain} for good? [y/N] "):
        talk.print("nothing was changed")
        return 1
    uvloop.run(_leave(layout, description))
    if output == "json":
        print_json({"machine": description.machine, "left": True})
    else:
        talk.print(f"{description.machine} has left; its files in {layout.directory} stay", soft_wrap=True)
    return 0


@app.command
def remove(
    machine: str,
    *,
    yes: bool = False,
    dry_run: bool = False,
    dir: Dir = DIRECTORY_DEFAULT,
    output: Output = "table",
) -> int:
    """Remove a machine that is gone for good, from another machine of the domain.

    A machine that lives leaves by itself: `holdfast machine leave`, there.

    Parameters
    ----------
    machine
        Its name.
    yes
        Do not ask.
    dry_run
        Only say what would be lost.
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    description = _machine(layout)
    record, hosts = uvloop.run(_gone(layout, description, machine))
    loss = {
        "machine": machine,
        "hosts": [each.host for each in hosts],
        "members": sum(each.members for each in hosts),
        "removed": not dry_run,
    }
    talk.print(
        f"{machine} has {len(record.hosts)} hosts with {loss['members']} members of groups. What only they "
        "held is lost; their members are made anew on other machines. If it comes back, it is refused",
        soft_wrap=True,
    )
    if dry_run:
        if output == "json":
            print_json(loss)
        return 0
    if not yes and not _is_agreed(f"Remove {machine} from {description.domain} for good? [y/N] "):
        talk.print("nothing was changed")
        return 1
    uvloop.run(_remove(layout, description, record, [each.host for each in hosts]))
    if output == "json":
        print_json(loss)
    else:
        talk.print(f"{machine} is removed", markup=False)
    return 0


def _machine(layout: Layout) -> Description:
    description = layout.read()
    if not description.machine:
        raise InvalidRequest(
            f"the domain in {layout.directory} is on one machine; `holdfast machine set --name NAME` makes "
            "it the first of several"
        )
    return description


def _shown(description: Description) -> dict[str, Any]:
    names = ("machine", "domain", "location", "hosts", "agent", "agent_address", "listen", "advertise")
    shown = {name: getattr(description, name) for name in names}
    return {
        **shown,
        "authority": _authority(description),
        "serves_authority": description.authority_listens is not None,
        "certs": description.certs,
        "insecure": description.insecure,
    }


def _listed(record: MachineRecord, sessions: dict[HostId, Session], own: str) -> dict[str, Any]:
    return {
        "machine": record.machine,
        "location": record.location,
        "agent_address": record.agent_address,
        "hosts": list(record.hosts),
        "live": [f"{host} at {session.address}" for host, session in sessions.items()],
        "is_this": record.machine == own,
        "serves_authority": record.serves_authority,
        "insecure": record.insecure,
    }


def _notes(row: dict[str, Any]) -> list[str]:
    said = {"is_this": "this machine", "serves_authority": "the authority is here", "insecure": "INSECURE"}
    return [text for name, text in said.items() if row[name]]


def _words(value: object) -> object:
    return list(value) if isinstance(value, tuple | list) else value


def _authority(description: Description) -> str:
    return description.authority_address or ",".join(description.etcd_endpoints)


def _is_agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise InvalidRequest("nobody is there to be asked; say --yes if this is meant")
    return is_agreed(question)


async def _leave(layout: Layout, description: Description) -> None:
    """Leave, from wherever an earlier attempt was interrupted: what is done already is not done again."""
    if not await has_left(layout, description):
        await _leave_domain(layout, description)
    talk.print("stopping its processes ...")
    await stop_domain(layout, description)


async def _leave_domain(layout: Layout, description: Description) -> None:
    endpoint = admin_endpoint(layout, description)
    known = await give(await _elsewhere(layout, description), endpoint, ListHosts(), HostList)
    left = [host for host in description.hosts if any(each.host == host for each in known.hosts)]
    if left and holder_of(layout.agent_directory) is None:
        raise Unavailable(
            f"{description.machine} does not run: start it, so that its members can move elsewhere"
        )
    for host in left:
        await drained(layout, host, wait=True)
    for host in left:
        await give(await _elsewhere(layout, description), endpoint, RemoveHost(host=host), HostList)
        talk.print(f"{host}: removed", markup=False)
    await strike_out(layout, description, description.machine)


def _see_to_secret(layout: Layout, description: Description) -> None:
    """Have the domain's secret here before it is needed, where there are no certificates.

    Raises ``InvalidRequest`` if it must come from another machine.
    """
    if description.certs:
        return
    if description.etcd_endpoints:
        make_private(layout.directory)
        ensure_secret(layout.directory, description.domain)  # this may be the domain's first machine
    elif not (layout.directory / SECRET_FILE).exists():
        raise InvalidRequest(
            "without certificates, machines know each other by the domain's secret: copy the file "
            f"{SECRET_FILE} from the directory of another machine of {description.domain} to "
            f"{layout.directory}, readable for its user only, and try again"
        )


async def _take_names_back(layout: Layout, description: Description) -> None:
    """Let the names of hosts that were removed be used again, by this machine, which begins with nothing.

    Raises ``Unavailable`` while the old hosts are in session.
    """
    sessions = [each for _, of_one in await machines_of(layout, description) for each in of_one.values()]
    if sessions:  # otherwise there is nobody to ask, and a domain without a host has removed none
        addresses = [Address.parse(each.address) for each in sessions]
        for host in description.hosts:
            await give(addresses, admin_endpoint(layout, description), ReturnHost(host=host), HostList)


async def _elsewhere(layout: Layout, description: Description) -> list[Address]:
    """The hosts on other machines: the last order is given when this machine has none any more."""
    machines = await machines_of(layout, description)
    others = [sessions for record, sessions in machines if record.machine != description.machine]
    found = [each.address for sessions in others for each in sessions.values()]
    if not found:
        raise Unavailable("no host of another machine lives: the domain would end with this machine")
    return [Address.parse(each) for each in found]


async def _gone(
    layout: Layout, description: Description, machine: str
) -> tuple[MachineRecord, list[HostInfo]]:
    if machine == description.machine:
        raise InvalidRequest(f"{machine} is this machine: it leaves with `holdfast machine leave`")
    all_machines = await machines_of(layout, description)
    found = {record.machine: (record, sessions) for record, sessions in all_machines}
    if machine not in found:
        raise InvalidRequest(f"there is no machine {machine!r}; there are: {', '.join(sorted(found))}")
    record, sessions = found[machine]
    if sessions:
        raise InvalidRequest(
            f"{machine} lives ({', '.join(sessions)} in session): let it leave with `holdfast machine leave` "
            "there"
        )
    known = await give_at(layout, ListHosts(), HostList)
    return record, [each for each in known.hosts if each.host in record.hosts]


async def _remove(
    layout: Layout, description: Description, record: MachineRecord, hosts: list[HostId]
) -> None:
    for host in hosts:
        await give_at(layout, RemoveHost(host=host, is_lost=True), HostList)
        talk.print(f"{host}: removed", markup=False)
    await strike_out(layout, description, record.machine)
