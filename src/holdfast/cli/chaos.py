"""`holdfast chaos`: break something of a domain on this machine, to see it survive."""

import signal

import uvloop
from cyclopts import App

from holdfast.cli.domain import Dir
from holdfast.cli.ordering import order_at
from holdfast.cli.output import talk
from holdfast.model.errors import InvalidRequest
from holdfast.model.orders import ListGroups
from holdfast.node.holders import signal_holder
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

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
    (group,) = uvloop.run(order_at(layout, ListGroups(name=name)))
    host = group.primary
    if host not in layout.read().hosts:
        raise InvalidRequest(f"{host}, the primary of {name}, is not on this machine")
    signal_holder(layout.host(host), signal.SIGKILL)
    talk.print(f"killed {host}, the primary of {name}", markup=False)
    return 0
