"""`holdfast group upgrade`: let a group continue with the code that its application directory holds now."""

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import uvloop
from cyclopts import Parameter

from holdfast.agent.rolling_upgrade import Given, RollingUpgrade, has, is_served_by, probe, to_restart
from holdfast.cli.admin import give_at, order_at
from holdfast.cli.explain import change_in_words
from holdfast.cli.group.recover import EXIT_DECLINED
from holdfast.cli.output import Output, is_agreed, print_json, talk
from holdfast.cli.where import Dir
from holdfast.model.admin.groups import GroupHistory, GroupInfo, ListGroups, Order
from holdfast.model.admin.upgrades import TryUpgrade, UpgradeTried
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.errors import OutcomeUnknown, Rejected, Unavailable
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

EXIT_REFUSED = 1
PATIENCE_S = 30.0
"""How long to repeat a question while hosts restart: long enough for the group to get another primary. A
trial that was begun meanwhile is waited for."""
POLL_S = 0.2
ASKED_MAX = 10


class NothingToUpgrade(Rejected):
    """Raised when a group is already served by the code that the application's directory holds."""

    code = "nothing_to_upgrade"


class NothingToTry(Unavailable):
    """Raised when no member has a state on which new code could be tried."""


class CannotUpgrade(Rejected):
    """Raised when the new code cannot continue from the group's state."""

    code = "cannot_upgrade"


def upgrade(
    name: str,
    *,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    replay: Annotated[bool, Parameter(negative="")] = False,
    yes: Annotated[bool, Parameter(negative="")] = False,
    dir: Dir = DIRECTORY_DEFAULT,
    output: Output = "table",
) -> int:
    """Let a group continue with its class as it is in the application's directory now; no call is lost.

    Its hosts are restarted one after the other, backups first, each back in sync before the next; then a
    member with the new code takes the group over. It is safe to interrupt, and continues when run again.
    Every group on these hosts gets the code that is there now.

    Parameters
    ----------
    name
        The group's name.
    dry_run
        Change nothing: try the new code on the group's present state, in a process of its own, and list what
        would differ; exits with 1 if the upgrade would be refused.
    replay
        Also replay with the new code those calls that older code executed and that no host can replay with it
        any more: acknowledged results may change.
    yes
        Do not ask.
    output
        `table` for people, `json` for machines.
    """
    layout = Layout(dir)
    if dry_run:
        return _show(uvloop.run(_tried(layout, name, replay=replay)), name, output)
    info, new = uvloop.run(_looked(layout, name))
    if is_served_by(info, new) and all(has(info, host, new) for host in info.placed_on):
        raise NothingToUpgrade(f"nothing to upgrade: {name} is served by {new}, which all its hosts have")
    refused = uvloop.run(_refused(layout, info, new, replay=replay))
    if refused:
        raise CannotUpgrade(f"{name} would not go on with {new}: {refused}")
    if not yes and sys.stdin.isatty() and not is_agreed(_question(info, new, replay=replay)):
        talk.print("nothing was changed")
        return EXIT_DECLINED
    history = uvloop.run(_rolled(layout, name, new, replay=replay))
    if output == "json":
        print_json(history)
        return 0
    last = history.code_changes[-1] if history.code_changes else None
    is_told = last is not None and last.to_code == str(new)
    said = change_in_words(last) if last is not None and is_told else f"every host has {new}"
    talk.print(f"{name}: {said}", markup=False, soft_wrap=True)
    return 0


async def _tried(layout: Layout, name: str, *, replay: bool) -> UpgradeTried:
    """Try the code at the primary, whose state is the newest; at the next primary if it dies."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        (info,) = await _groups(layout, name)
        if not info.primary:
            raise NothingToTry(f"{name} has no member yet to try it on")
        with suppress(Unavailable, OutcomeUnknown):
            wanted = TryUpgrade(name=name, replays=replay)
            return await give_at(layout, wanted, UpgradeTried, host=info.primary)
        await asyncio.sleep(POLL_S)
    said = f"nobody could try it on the state of {name} within {PATIENCE_S:g} s"
    raise NothingToTry(f"{said}; `holdfast explain {name}` says why")


async def _groups(layout: Layout, name: str) -> tuple[GroupInfo, ...]:
    """Look the group up; repeats if a host dies meanwhile, but fails at once if the domain is down."""
    for _ in range(ASKED_MAX):
        with suppress(OutcomeUnknown):
            return await order_at(layout, ListGroups(name=name))
        await asyncio.sleep(POLL_S)
    return await order_at(layout, ListGroups(name=name))


async def _refused(layout: Layout, info: GroupInfo, new: Code, *, replay: bool) -> str:
    """Why the group could not continue with the code, as far as that can be tried.

    If nobody has the group's object there is nothing to try the code on, and it may be just what helps.
    """
    if is_served_by(info, new):
        return ""
    try:
        found = await _tried(layout, info.name, replay=replay)
    except NothingToTry:
        return ""
    return why_not(found, new, info.class_name)


def why_not(found: UpgradeTried, new: Code, class_name: str) -> str:
    """Why the trial refuses *new*. A trial that failed before it found a code says so itself; only another
    code means that somebody edits the class."""
    tried = found.code.code
    if tried.is_same(new) or tried.is_same(UNKNOWN):
        return found.refused
    return f"{class_name} is being edited: {tried} was tried, not {new}"


def _show(found: UpgradeTried, name: str, output: Output) -> int:
    is_same = found.code.code.is_same(found.from_code.code)
    refused = found.refused or ("nothing to upgrade: it is the code that runs" if is_same else "")
    if output == "json":
        print_json(msgspec.structs.replace(found, refused=refused))
        return EXIT_REFUSED if refused else 0
    for line in found.says:
        talk.print(line, markup=False, soft_wrap=True)
    if refused:
        talk.print(f"{name} would not go on: {refused}", markup=False, soft_wrap=True)
        return EXIT_REFUSED
    said = f"{name} would go on with {found.code.code} after position {found.position}"
    talk.print(
        f"{said}{'' if found.says else '; nothing of its state differs'}", markup=False, soft_wrap=True
    )
    return 0


async def _looked(layout: Layout, name: str) -> tuple[GroupInfo, Code]:
    """The group, and its class as it is in the application's directory now."""
    (info,) = await _groups(layout, name)
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

    async def try_it() -> str:
        (info,) = await _groups(layout, name)
        return await _refused(layout, info, new, replay=replay)

    try:
        return await RollingUpgrade(layout, give, name, new, say, try_it).roll(replays=replay)
    except TimeoutError:
        raise Unavailable("no host answers; begin again to go on") from None
