"""`holdfast group sends`: the calls that a group sends and waits for nobody with."""

from datetime import UTC, datetime
from typing import Any

import uvloop

from holdfast.calling.config import CallPolicy
from holdfast.cli.domain import Dir
from holdfast.cli.output import Output, print_json, print_table, say
from holdfast.client.domain import connect
from holdfast.model.units import SECOND
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.node.reaching import url_of
from holdfast.styles.sends import LIST_QUERY

WAIT_S = 10


def sends(name: str, *, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Show the calls that a group has still to send, and the latest that came to nothing.

    Parameters
    ----------
    name
        Its name.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(_ask(Layout(dir), name))
    if output == "json":
        print_json(found)
        return 0
    say(f"{name}: {found['waiting_count']} to send, {found['failures']} came to nothing")
    if found["waiting"]:
        rows = [(str(each["number"]), _call(each), _time(each["expires_ns"])) for each in found["waiting"]]
        print_table(("number", "to send", "expires"), rows)
    if found["failed"]:
        rows = [
            (str(each["number"]), _call(each), f"{_time(each['ended_ns'])} {each['code']}: {each['text']}")
            for each in found["failed"]
        ]
        print_table(("number", "came to nothing", "why"), rows)
    return 0


async def _ask(layout: Layout, name: str) -> dict[str, Any]:
    policy = CallPolicy(duration_ns=WAIT_S * SECOND)
    async with connect(await url_of(layout, layout.read()), policy=policy) as domain:
        group = await domain.group(name)
        found: dict[str, Any] = await group.call(LIST_QUERY)
        return found


def _call(each: dict[str, Any]) -> str:
    return f"{each['group']}.{each['method']}"


def _time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / SECOND, UTC).isoformat(sep=" ", timespec="seconds")
