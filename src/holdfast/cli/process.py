"""The processes of a domain, as `holdfast up` starts them; people use that command instead."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from cyclopts import App

from holdfast.cli.complaint import complain
from holdfast.machine import end_on_broken_invariant, log_to_stderr
from holdfast.machine.files import close_to_others
from holdfast.machine.process_end import end_with
from holdfast.machine.process_tuning import SHORT_NS, allow_open_files, ask_for_slices, spare_what_stays
from holdfast.model.ids import HostId

if TYPE_CHECKING:
    from holdfast.settings.contract import Read

hosts = App(name="host", help="Show, restart and empty hosts.")
hosts.command("holdfast.cli.hosts:list_", name="list", help="Show hosts, and what they house.")
hosts.command("holdfast.cli.hosts:add", name="add", help="Let the domain have one more host.")
hosts.command("holdfast.cli.hosts:set_", name="set", help="Say where a host is, and what it is for.")
hosts.command("holdfast.cli.hosts:restart", name="restart", help="Restart a host while groups serve.")
hosts.command("holdfast.cli.hosts:drain", name="drain", help="Move all members off a host.")
hosts.command("holdfast.cli.hosts:remove", name="remove", help="Let a host be of the domain no more.")
hosts.command("holdfast.cli.hosts:undrain", name="undrain", help="Let a host take members again.")


@hosts.default
def host(*, dir: Path, id: str, with_parent: int | None = None) -> int:
    """Run one host of the domain in DIR (started by its agent).

    Parameters
    ----------
    dir
        The domain's directory.
    id
        The host's id, one of those in the domain's description.
    with_parent
        Pid of the process that starts the host: when it is gone, the host ends. An agent passes none, because
        its hosts outlive it.
    """
    from holdfast.machine.child_process import DAMAGED_STATUS
    from holdfast.model.errors import Corruption, InvalidRequest
    from holdfast.node.door_table import make_doors
    from holdfast.node.host import Host
    from holdfast.node.layout import Layout
    from holdfast.node.open_files import require_open_files
    from holdfast.settings.file import read_applied
    from holdfast.settings.in_force import Following
    from holdfast.web.settings import read_client_rules

    if with_parent is not None:
        end_with(with_parent, signal.SIGTERM)
    layout = Layout(dir)
    description = layout.read()
    if id not in description.hosts:
        raise InvalidRequest(f"{layout.directory} has no host {id!r}; it has {', '.join(description.hosts)}")
    found = read_applied(layout.directory, os.environ).insist()
    require_open_files(found.settings.host.connections, description.roles_of(HostId(id)))
    doors = make_doors(layout, description, HostId(id))

    async def serve() -> None:
        host = Host(layout, description, HostId(id), config=found.settings.host, doors=doors, clients=clients)
        following = Following(layout.directory, layout.host(HostId(id)), found, host.retune, os.environ)
        task = asyncio.create_task(following.work())
        try:
            await host.run()
        finally:
            task.cancel()

    try:
        clients = read_client_rules(layout.directory)
        return _run(serve, found)
    except Corruption as error:
        complain(error)
        return DAMAGED_STATUS  # so that its agent can tell


def agent(*, dir: Path, with_parent: int | None = None) -> int:
    """Run the agent of the domain in DIR: start, watch and restart its authority and hosts.

    Parameters
    ----------
    dir
        The domain's directory.
    with_parent
        Pid of the process that starts the agent: when it is gone, the domain stops.
    """
    from holdfast.agent.agent import Agent
    from holdfast.node.layout import Layout
    from holdfast.settings.file import read_applied
    from holdfast.storage.lock import DirectoryLock, Holder

    if with_parent is not None:
        end_with(with_parent, signal.SIGTERM)
    layout = Layout(dir)
    description = layout.read()
    since = datetime.now(UTC).isoformat(timespec="seconds")
    lock = DirectoryLock.take(layout.agent_directory, Holder(pid=os.getpid(), what="an agent", since=since))
    try:
        found = read_applied(layout.directory, os.environ)
        return _run(lambda: Agent(layout, description).run(), found)
    finally:
        lock.release()


def _run(work: Callable[[], Coroutine[object, object, None]], found: "Read") -> int:
    close_to_others()
    log_to_stderr(found.settings.output.level, found.settings.output.form)
    spare_what_stays()
    allow_open_files()
    ask_for_slices(SHORT_NS)

    async def main() -> None:
        end_on_broken_invariant(asyncio.get_running_loop())
        await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return 0
