"""`holdfast group upgrade`: let a group go on with the code that its application directory holds now."""

import sys
from pathlib import Path
from typing import Annotated

import uvloop
from cyclopts import Parameter

from holdfast.cli.domain import Dir
from holdfast.cli.history import change_in_words
from holdfast.cli.ordering import give_at, order_at
from holdfast.cli.output import Output, is_agreed, print_json, talk
from holdfast.cli.recover import EXIT_DECLINED
from holdfast.model.code import Code
from holdfast.model.errors import Rejected, Unavailable
from holdfast.model.orders import GroupHistory, GroupInfo, ListGroups, Order
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.node.probing import probe
from holdfast.node.rolling import Given, Rolling, has, is_served_by, to_restart


class NothingToUpgrade(Rejected):
    """Raised when a group is served by the code that the application's directory holds."""

    code = "nothing_to_upgrade"


def upgrade(
    name: str,
    *,
    replay: Annotated[bool, Parameter(negative="")] = False,
    yes: Annotated[bool, Parameter(negative="")] = False,
    dir: Dir = DIRECTORY_DEFAULT,
    output: Output = "table",
) -> int:
    """Let a group go on with its class as the application's directory holds it now, without a lost call.

    Its hosts are started again one after the other, backups first, each back in sync before the next; then a
    member with the new code takes the group over. Interrupted, it is safe, and begun again it goes on. Every
    group on these hosts gets the code that is there now.

    Parameters
    ----------
    name
        The group's name.
    replay
        Replay with the new code also what older code made and no host can replay any more: what was
        acknowledged may change.
    yes
        Do not ask.
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    info, new = uvloop.run(_looked(layout, name))
    if is_served_by(info, new) and all(has(info, host, new) for host in info.placed_on):
        raise NothingToUpgrade(f"nothing to upgrade: {name} is served by {new}, which all its hosts have")
    if not yes and sys.stdin.isatty() and not is_agreed(_question(info, new, replay=replay)):
        talk.print("nothing was changed")
        return EXIT_DECLINED
    history = uvloop.run(_rolled(layout, name, new, replay=replay))
    if output == "json":
        print_json(history)
        return 0
    last = history.code_changes[-1] if history.code_changes else None
    said = change_in_words(last) if last is not None else f"every host has {new}"
    talk.print(f"{name}: {said}", markup=False, soft_wrap=True)
    return 0


async def _looked(layout: Layout, name: str) -> tuple[GroupInfo, Code]:
    """The group, and its class as it is in the application's directory now."""
    (info,) = await order_at(layout, ListGroups(name=name))
    description = layout.read()
    return info, await probe(Path(description.app), description.allowed_classes, info.class_name)


def _question(info: GroupInfo, new: Code, *, replay: bool) -> str:
    hosts = to_restart(info, new)
    was = info.code.code if info.code is not None else "unknown code"
    lines = [f"{info.name} goes on with {new}; it was served by {was}."]
    if hosts:
        lines.append(f"These hosts are started again, one after the other: {', '.join(hosts)}.")
    if replay:
        lines.append("What older code made is replayed with the new one: acknowledged results may change.")
    return "\n".join([*lines, "Go on? [y/N] "])


async def _rolled(layout: Layout, name: str, new: Code, *, replay: bool) -> GroupHistory:
    async def give(wanted: Order, kind: type[Given]) -> Given:
        return await give_at(layout, wanted, kind)

    def say(line: str) -> None:
        talk.print(line, markup=False, soft_wrap=True)

    try:
        return await Rolling(layout, give, name, new, say).roll(replays=replay)
    except TimeoutError:
        raise Unavailable("no host answers; begin again to go on") from None
