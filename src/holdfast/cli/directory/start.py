"""`holdfast directory start`: a domain whose hosts are the masters of a directory, in the foreground.

The one JSON line is an interface, which scripts outside read: it does not change.
"""

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec
import uvloop
from cyclopts import Parameter

from holdfast.agent.startup import check_hosts, describe, hold, last_output, start_agent, why_not_alive
from holdfast.agent.status_client import stop_orphans
from holdfast.cli.admin import endpoint_at
from holdfast.cli.directory.commands import first_line
from holdfast.cli.directory.masters import Master, ask, masters_at, reachable
from holdfast.cli.domain import EXIT_INTERRUPTED, start_hosts, stop_agent, unless
from holdfast.cli.output import Output, print_json, say, talk
from holdfast.cli.where import Dir
from holdfast.directory.hosting.orders import FOUNDING, FoundDirectory, OrderDone
from holdfast.directory.master import top_entry
from holdfast.directory.replica.passwords import SALT_BYTES, hashed
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.schema.standard import standard_schema
from holdfast.machine.files import write_durably
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.host_roles import DIRECTORY, GROUPS
from holdfast.model.ids import HostId
from holdfast.node.layout import DIRECTORY_DEFAULT, Description, Layout
from holdfast.settings import file as settings_file

MASTERS_DEFAULT: Final = 2
ADMIN_FILE: Final = "directory-admin.json"
"""Within the domain's directory, for its user alone: the administrator's password that was made at the
start, as long as nobody has given another."""
FOUND_S: Final = 90.0
SERVE_S: Final = 120.0
"""How long all masters may take until they serve: a busy machine takes its time."""
POLL_S: Final = 0.05


class Admin(msgspec.Struct, frozen=True, kw_only=True):
    """The administrator that a start has made."""

    suffix: str
    admin_dn: str
    admin_password: str | None


class Admins(Admin, frozen=True, kw_only=True, omit_defaults=True):
    """What a start keeps of them: the first one's, and those of further suffixes."""

    further: tuple[Admin, ...] = ()

    @classmethod
    def of(cls, admins: Sequence[Admin]) -> "Admins":
        first, *further = admins
        return cls(
            suffix=first.suffix,
            admin_dn=first.admin_dn,
            admin_password=first.admin_password,
            further=tuple(further),
        )

    @property
    def all(self) -> tuple[Admin, ...]:
        first = Admin(suffix=self.suffix, admin_dn=self.admin_dn, admin_password=self.admin_password)
        return (first, *self.further)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be started."""

    suffixes: tuple[str, ...]
    consumers: tuple[HostId, ...]
    password: bytes | None
    has_sample: bool = False


def start(
    *,
    dir: Dir = DIRECTORY_DEFAULT,
    suffix: list[str] | None = None,
    masters: int | None = None,
    consumers: int | None = None,
    admin_password_file: Path | None = None,
    port_base: int | None = None,
    sample: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
) -> int:
    """Run a directory of several masters on this machine, each a host of one domain.

    Stays in the foreground; Ctrl-C and SIGTERM stop everything in order. Started again, it goes on with the
    data that is there.

    Parameters
    ----------
    suffix
        The name of the tree's top, such as dc=example,dc=com; may be left out if the directory is there. Said
        several times, every master serves all of them, each replicated by itself; to add one to those that
        are there, name one of them as well.
    masters
        How many masters a new directory gets (default 2). Each takes writes; all end with the same entries.
    consumers
        How many read-only replicas it gets besides: they refer writers to a master.
    admin_password_file
        For a new directory: a file with the administrator's password on its first line. Without it one is
        made, and kept in the domain's directory for its user alone.
    port_base
        Let processes listen on fixed ports (docs/deploying.md).
    sample
        Give a new directory a few persons and a group to look at.
    output
        Lines for people, or one JSON object on the first line for scripts.
    """
    layout = Layout(dir)
    known = layout.read() if layout.exists else None
    count = None if known is not None and masters is None else (masters or MASTERS_DEFAULT)
    if count is not None and known is None:
        count += consumers or 0
    check_hosts(count)
    for each in suffix or ():
        # Before any file is made: a name that cannot be a suffix, or has no class for its top.
        top_entry(Suffix(each, standard_schema()).dn, each)
    if not suffix and known is None:
        raise InvalidRequest(f"{layout.directory} holds no directory yet: say --suffix dc=example,dc=com")
    password = None if admin_password_file is None else first_line(admin_password_file)
    settings_file.check(layout.directory, os.environ).insist()
    lock = hold(layout)
    try:
        settings_file.apply(layout.directory, os.environ).insist()
        description = describe(
            layout,
            hosts=None if known is not None and masters is None else count,
            etcd=(),
            port_base=port_base,
            roles=[f"{GROUPS},{DIRECTORY}={count}"] if known is None else (),
        )
        last = description.hosts[len(description.hosts) - (consumers or 0) :] if known is None else ()
        wanted = Wanted(tuple(suffix or ()), tuple(last) if consumers else (), password, sample)
        agent = start_agent(layout, with_parent=True)
        return uvloop.run(_run(layout, description, agent, wanted, _teller(output)))
    finally:
        lock.release()


Tell = Callable[[list[Master], Sequence[Admin], tuple[HostId, ...]], None]


def _teller(output: Output) -> Tell:
    def tell(masters: list[Master], admins: Sequence[Admin], consumers: tuple[HostId, ...]) -> None:
        admin = admins[0]
        rows = [{"id": each.host, "ldap": each.ldap, "pid": each.pid} for each in masters]
        if output == "json":
            line: dict[str, object] = {
                "masters": [each for each in rows if each["id"] not in consumers],
                "admin_dn": admin.admin_dn,
                "admin_password": admin.admin_password,
            }
            if len(admins) > 1:
                line["suffixes"] = admins
            if consumers:
                line["consumers"] = [each for each in rows if each["id"] in consumers]
            print_json(line)
            return
        for each in masters:
            kind = "read-only at" if each.host in consumers else "at"
            names = " and ".join(each.suffix for each in admins)
            say(f"{each.host} serves {names} {kind} ldap://{each.ldap}")
        for who in admins:
            say(f"administrator: {who.admin_dn}", f"password: {who.admin_password or '(as it was given)'}")
        say(f"try: ldapsearch -x -H ldap://{masters[0].ldap} -b {admin.suffix}")

    return tell


async def _run(
    layout: Layout,
    description: Description,
    agent: "subprocess.Popen[bytes]",
    wanted: Wanted,
    tell: Tell,
) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        found = await unless(stop, _begin(layout, description, agent, wanted))
        if found is None:
            return EXIT_INTERRUPTED
        tell(*found)
        while not stop.is_set():
            if agent.poll() is not None:
                raise Unavailable(f"the agent has ended; it said:\n{last_output(layout, 'agent')}")
            await unless(stop, asyncio.sleep(0.25))
        talk.print("stopping ...")
        return 0
    finally:
        await stop_agent(agent)
        await stop_orphans(layout, description)  # what a killed agent could not stop


async def _begin(
    layout: Layout, description: Description, agent: "subprocess.Popen[bytes]", wanted: Wanted
) -> tuple[list[Master], Sequence[Admin], tuple[HostId, ...]]:
    status = await start_hosts(layout, description, agent)
    if not all(host.alive for host in status.hosts):
        talk.print(why_not_alive(layout, status), markup=False, soft_wrap=True)
    alive = frozenset(host.id for host in status.hosts if host.alive)
    masters = await _until(layout, alive, _is_listed, "answer")
    admins = await _ensure_directories(layout, masters, wanted)
    for each in reversed(admins):
        masters = await _until(layout, alive, _is_ready, "serve", each.suffix)
    read_only = tuple(each.host for each in masters if each.info is not None and each.info.is_read_only)
    return masters, admins, read_only


async def _ensure_directories(layout: Layout, masters: list[Master], wanted: Wanted) -> list[Admin]:
    """Begin the directories that are not there yet; returns the administrators of all, in order."""
    schema = standard_schema()
    infos = [each.info for each in masters if each.info is not None]
    there = {_key(each): each for info in infos for each in info.suffixes}
    named = {_key(each): Suffix(each, schema).text for each in wanted.suffixes}
    if not there and not named:
        raise InvalidRequest(f"{layout.directory} holds no directory yet: say --suffix dc=example,dc=com")
    if there and named and not there.keys() & named.keys():
        known = ", ".join(sorted(there.values()))
        raise InvalidRequest(
            f"{layout.directory} holds the directory {known}, not {wanted.suffixes[0]}; name both"
        )
    kept = {_key(each.suffix): each for each in _read_admins(layout)}
    password = wanted.password or secrets.token_urlsafe(12).encode()
    admins: dict[bytes, Admin] = {}
    begun: list[tuple[Admin, Master]] = []
    for key in dict.fromkeys((*named, *kept, *there)):
        if key not in there and key not in named:
            continue  # the file is of a start that never came so far
        suffix = there.get(key) or named[key]
        founder = await _founder(layout, masters, suffix if key in there else "")
        if founder is None:
            admins[key] = kept.get(key) or Admin(
                suffix=suffix, admin_dn=f"cn=admin,{suffix}", admin_password=None
            )
            continue
        admins[key] = Admin(
            suffix=suffix, admin_dn=f"cn=admin,{suffix}", admin_password=password.decode("utf-8", "replace")
        )
        begun.append((admins[key], founder))
    found = list(admins.values())
    if begun and wanted.password is None:
        # Before the password is anybody's: a start that is cut short must not leave one that nobody knows.
        write_durably(layout.directory / ADMIN_FILE, msgspec.json.encode(Admins.of(found)) + b"\n")
    read_only = wanted.consumers or tuple(info.host for info in infos if info.is_read_only)
    for admin, founder in begun:
        secret = await asyncio.to_thread(hashed, password, secrets.token_bytes(SALT_BYTES))
        order = FoundDirectory(
            suffix=admin.suffix, secret=secret, read_only=read_only, has_sample=wanted.has_sample
        )
        await ask(reachable(founder), endpoint_at(layout), order, OrderDone, within_s=FOUND_S)
    return found


async def _founder(layout: Layout, masters: list[Master], suffix: str) -> Master | None:
    """Who is to begin a directory: whoever began to, if it is there but in part; None if it is there."""
    if not suffix:
        return next(each for each in masters if each.is_alive and each.address)
    found = await _masters(layout, suffix)
    return next((each for each in found if each.info is not None and each.info.state == FOUNDING), None)


def _read_admins(layout: Layout) -> tuple[Admin, ...]:
    try:
        return msgspec.json.decode((layout.directory / ADMIN_FILE).read_bytes(), type=Admins).all
    except (OSError, msgspec.DecodeError):
        return ()


async def _until(
    layout: Layout,
    alive: frozenset[HostId],
    is_so: Callable[[Master], bool],
    what: str,
    suffix: str = "",
) -> list[Master]:
    """Wait until it is so of the directory of each host that came up."""
    found: dict[HostId, Master] = {}
    try:
        async with asyncio.timeout(SERVE_S):
            while not found or not all(each in found and is_so(found[each]) for each in alive):
                await asyncio.sleep(POLL_S)
                found = {each.host: each for each in await _masters(layout, suffix) if each.host in alive}
    except TimeoutError:
        late = [f"{host}: {_state(found.get(host))}" for host in sorted(alive)]
        raise Unavailable(f"not all masters {what} after {SERVE_S:g} s: {'; '.join(late)}") from None
    return list(found.values())


async def _masters(layout: Layout, suffix: str = "") -> list[Master]:
    try:
        return await masters_at(layout, suffix)
    except InvalidRequest:
        raise
    except HoldfastError:
        return []  # the hosts are still finding each other


def _is_listed(master: Master) -> bool:
    return master.info is not None


def _is_ready(master: Master) -> bool:
    """Whether it serves, and may write if it is not read-only."""
    info = master.info
    return info is not None and info.state == "serving" and (info.may_write or info.is_read_only)


def _state(master: Master | None) -> str:
    if master is None or master.info is None:
        return "gone" if master is None else master.why
    return f"{master.info.state} {master.info.problem}".strip()


def _key(suffix: str) -> bytes:
    return Suffix(suffix, standard_schema()).key
