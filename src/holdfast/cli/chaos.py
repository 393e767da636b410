"""`holdfast chaos`: break something of a domain on this machine, to see it survive."""

import signal

import uvloop
from cyclopts import App

from holdfast.cli.domain import Dir
from holdfast.cli.output import talk
from holdfast.model.errors import InvalidRequest
from holdfast.node.holders import signal_holder
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.node.ordering import group_named, primary_of

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
    description = layout.read()
    host = primary_of(uvloop.run(group_named(layout, description, name)))
    if host not in description.hosts:
        raise InvalidRequest(f"{host}, the primary of {name}, is not on this machine")
    signal_holder(layout.host(host), signal.SIGKILL)
    talk.print(f"killed {host}, the primary of {name}", markup=False)
    return 0
