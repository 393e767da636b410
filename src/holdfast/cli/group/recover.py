"""`holdfast group recover`: continue from what one member holds when a group cannot continue by itself."""

import sys
from typing import Annotated

import uvloop
from cyclopts import Parameter

from holdfast.cli.admin import check_host, give_at, here
from holdfast.cli.output import Output, is_agreed, print_json, print_table, talk
from holdfast.cli.where import HERE, Where
from holdfast.model.admin.groups import GroupInspected, GroupRecovered, HeldInfo, InspectGroup, RecoverGroup
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId

EXIT_DONE, EXIT_DECLINED = 0, 1


def recover(
    name: str,
    *,
    source: Annotated[str | None, Parameter(name="--from")] = None,
    yes: Annotated[bool, Parameter(negative="")] = False,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Continue from what one host holds of a group, if the hosts that hold more are lost for good.

    Shows what each member holds and what would be lost, and asks. Whatever other members hold beyond that is
    lost for ever: first see whether their hosts can be brought back. Without --from it only shows.

    Parameters
    ----------
    name
        The group's name.
    source
        The host to continue from.
    yes
        Do not ask.
    output
        `table` for people, `json` for machines.
    """
    target = at.target
    found = uvloop.run(give_at(target, InspectGroup(name=name), GroupInspected))
    if source is None:
        _show(found, output)
        return EXIT_DONE
    held = _held(found, check_host(target, source))
    if output == "table":
        _show(found, output)
    if not yes and not _is_agreed(held):
        talk.print("nothing was changed")
        return EXIT_DECLINED
    order = RecoverGroup(name=name, source=held.host, epoch=found.epoch, agreed_to="" if yes else held.text)
    done = uvloop.run(give_at(target, order, GroupRecovered))
    if output == "json":
        print_json(done)
    else:
        talk.print(f"{name} goes on {done.text}", markup=False, highlight=False, soft_wrap=True)
        watch = f"holdfast group history {name}{here(target)}"
        talk.print(f"watch with `{watch}`", highlight=False, soft_wrap=True)
    return EXIT_DONE


def _held(found: GroupInspected, host: HostId) -> HeldInfo:
    """What *host* holds. Raises ``InvalidRequest`` if the group cannot be recovered from it."""
    if found.is_served:
        raise InvalidRequest(_served(found))
    for each in found.members:
        if each.host == host:
            return each
    if host in found.silent:
        raise InvalidRequest(f"{host} does not say what it holds; start it first (`holdfast status`)")
    raise InvalidRequest(f"{found.group.name} is not placed on {host}; on {', '.join(found.group.placed_on)}")


def _show(found: GroupInspected, output: Output) -> None:
    if output == "json":
        print_json(found)
        return
    print_table(
        ("host", "holds up to", "in sync", "known to be lost", "possibly lost"),
        (
            (each.host, each.position, "yes" if each.is_listed else "no", each.known_lost, _possibly(each))
            for each in found.members
        ),
    )
    if found.silent:
        talk.print(f"silent: {', '.join(found.silent)}; they may hold more", style="yellow")
    if found.is_served:
        talk.print(_served(found))


def _served(found: GroupInspected) -> str:
    return f"{found.group.name} is served by {found.group.primary}: nothing is to be recovered"


def _possibly(held: HeldInfo) -> str:
    return str(held.possibly_lost) if held.is_listed else f"{held.possibly_lost} or more"


def _is_agreed(held: HeldInfo) -> bool:
    """Ask the person; refuse if there is none to ask."""
    talk.print(f"{held.text}. This cannot be undone.", markup=False, highlight=False, soft_wrap=True)
    if not sys.stdin.isatty():
        raise InvalidRequest("nobody is there to be asked; say --yes if this is meant")
    return is_agreed(f"Go on from {held.host}? [y/N] ")
