"""`holdfast config`: show, check and apply a domain's settings."""

import os
import time
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter

from holdfast.cli.output import Output, print_json, print_table, say, talk
from holdfast.cli.where import Dir
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.settings import file as settings_file
from holdfast.settings.contract import Read, Source
from holdfast.settings.in_force import InForce, digest_of_applied, read_in_force
from holdfast.settings.reference import example
from holdfast.settings.sections import Setting, differing, settings
from holdfast.settings.units import Value
from holdfast.storage.lock import holder_of

WAIT_S: Final = 30.0
"""How long `apply` waits for the hosts: a busy machine takes its time."""
POLL_S: Final = 0.05

app = App(name="config", help="Show, check and apply settings.")


@app.command
def show(*, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Show every setting: its value, its unit, and where it comes from.

    While hosts run, the values are those that the hosts have in force.

    Parameters
    ----------
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    running = _running(layout)
    read = settings_file.read_applied(layout.directory, os.environ)
    rows = [_Row.of(each, running, read) for each in settings().values()]
    if output == "json":
        print_json([row.as_dict() for row in rows])
    else:
        print_table(
            ("setting", "value", "unit", "source", "a change"),
            [(row.setting.name, row.number, row.unit, row.source, row.takes) for row in rows],
        )
        for row in rows:
            for host, shown in row.others.items():
                say(f"{host} has {row.setting.name} = {shown}")
    _tell_waiting(layout, running)
    for line in read.problems:
        talk.print(line, soft_wrap=True)
    return 2 if read.problems and not running else 0


@app.command
def check(
    file: Annotated[Path | None, Parameter(help="The file to check.")] = None,
    /,
    *,
    dir: Dir = DIRECTORY_DEFAULT,
) -> int:
    """Check a file of settings, by default the domain's `holdfast.toml`, and change nothing.

    Every mistake is one line: where it is, which setting, and what would be right.
    """
    path = file if file is not None else Layout(dir).directory / settings_file.FILE
    if file is not None and not file.exists():
        talk.print(f"{file} does not exist", soft_wrap=True)
        return 2
    read = settings_file.read_file(path, os.environ, settings_file.flags_in(os.environ))
    if read.problems:
        say(*read.problems)
        return 2
    talk.print(f"{path}: {len(read.sources)} settings, no problem", soft_wrap=True)
    return 0


@app.command
def apply(*, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Check `holdfast.toml` and let the domain's hosts on this machine have it, without a restart.

    A file with mistakes changes nothing. Which settings wait for a restart of the hosts is said.
    """
    layout = Layout(dir)
    layout.read()  # raises if there is no domain
    before = settings_file.read_applied(layout.directory, os.environ)
    read = settings_file.apply(layout.directory, os.environ)
    if read.problems:
        say(*read.problems)
        talk.print("nothing was changed")
        return 2
    changed = [each.name for each in differing(before.settings, read.settings)]
    talk.print(f"applied: {', '.join(changed) if changed else 'no setting differs from before'}")
    _wait_until_taken(layout)
    running = _running(layout)
    if not running:
        talk.print("no host runs here; they will start with it")
    elif hosts := in_force_on(changed, running):
        talk.print(f"in force on {', '.join(hosts)}")
    _tell_waiting(layout, running)
    return 0


@app.command(name="example")
def print_example() -> int:
    """Print a file with every setting, its default and what it means, all commented out."""
    say(*example().splitlines())
    return 0


class _Row:
    """One setting as it is shown."""

    def __init__(self, setting: Setting, value: Value, source: Source, others: dict[HostId, str]) -> None:
        self.setting = setting
        self.value = value
        self.number, self.unit = setting.kind.shown(value)
        self.source = source
        self.others = others
        """The hosts that have another value in force."""
        self.takes = "live" if setting.is_live else "at restart"

    @classmethod
    def of(cls, setting: Setting, running: dict[HostId, InForce], read: Read) -> "_Row":
        if not running:
            source = read.sources.get(setting.name, "default")
            return cls(setting, read.settings.value(setting), source, {})
        first = next(iter(running.values()))
        value = first.values.get(setting.name, setting.default)
        others = {
            host: " ".join(setting.kind.shown(found)).strip()
            for host, each in running.items()
            if (found := each.values.get(setting.name, setting.default)) != value
        }
        return cls(setting, value, first.sources.get(setting.name, "default"), others)

    def as_dict(self) -> dict[str, object]:
        setting = self.setting
        return {
            "setting": setting.name,
            "value": self.number,
            "unit": self.unit,
            "source": self.source,
            "default": " ".join(setting.kind.shown(setting.default)).strip(),
            "live": setting.is_live,
            "raw": self.value,
            "other_hosts": self.others,
        }


def _running(layout: Layout) -> dict[HostId, InForce]:
    """What the hosts that run here have in force."""
    found = {}
    for host in layout.read().hosts if layout.exists else ():
        holder, record = holder_of(layout.host(host)), read_in_force(layout.host(host))
        if holder is not None and record is not None and record.pid == holder.pid:
            found[host] = record
    return found


def _wait_until_taken(layout: Layout) -> None:
    """Wait until every host that runs here has taken what is applied. Raises ``Unavailable``."""
    digest, until = digest_of_applied(layout.directory), time.monotonic() + WAIT_S
    while late := [host for host, each in _running(layout).items() if each.applied != digest]:
        if time.monotonic() > until:
            said = f"did not take the settings within {WAIT_S:g} s; see {layout.output(late[0])}"
            raise Unavailable(f"{', '.join(late)} {said}")
        time.sleep(POLL_S)


def in_force_on(changed: list[str], running: dict[HostId, InForce]) -> list[HostId]:
    """The hosts on which any of the *changed* settings, or all there are, hold without a restart."""
    return [host for host, each in running.items() if not changed or set(changed) - set(each.at_restart)]


def _tell_waiting(layout: Layout, running: dict[HostId, InForce]) -> None:
    """Say what is not in force yet, and what to do about it."""
    waiting: dict[tuple[str, ...], list[str]] = {}
    for host, each in running.items():
        if each.at_restart:
            waiting.setdefault(each.at_restart, []).append(host)
    for names, hosts in waiting.items():
        said = f"{', '.join(names)} wait for a restart of {', '.join(hosts)}: `holdfast restart --rolling`"
        talk.print(said, soft_wrap=True)
    own = layout.directory / settings_file.FILE
    written = own.read_bytes() if own.exists() else b""
    applied = layout.directory / settings_file.APPLIED
    if layout.exists and written != (applied.read_bytes() if applied.exists() else b""):
        talk.print(f"{own} has changes that are not applied: `holdfast config apply`", soft_wrap=True)
