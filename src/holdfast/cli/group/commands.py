"""`holdfast group`: create, list, show, move, history, handover, members, recover, delete."""

import sys
from typing import Annotated, Literal

import msgspec
import uvloop
from cyclopts import App, Parameter

from holdfast.cli.admin import check_host, give_at, order_at
from holdfast.cli.explain import print_codes, print_history, print_poisoned, print_unkept
from holdfast.cli.group.members import add_member, primary_set, remove_member, sends, set_primary
from holdfast.cli.group.move import hosts_in, move
from holdfast.cli.group.recover import EXIT_DECLINED, recover
from holdfast.cli.output import Output, is_agreed, print_json, print_table, talk
from holdfast.cli.properties import assignments, set_group
from holdfast.cli.where import HERE, Where
from holdfast.model.admin.groups import (
    CreateGroup,
    DeleteGroup,
    GroupHistory,
    GroupInfo,
    ListGroups,
    SetPrimary,
    ShowHistory,
)
from holdfast.model.admin.streams import BindStream, StreamList

STATELESS = "stateless"

app = App(name="group", help="Create, show, move, recover and delete groups.")
app.command(recover)
app.command(add_member)
app.command(remove_member)
app.command(set_primary)
app.command(move)
app.command(set_group, name="set")
app.command(
    "holdfast.cli.group.upgrade:upgrade",
    name="upgrade",
    help="Let a group continue with its class as it is in the application's directory now; no call is lost.",
)
app.command(sends)


@app.command
def create(
    name: str,
    class_name: str,
    *,
    style: str = "",
    replicas: int = 0,
    args: str = "[]",
    min_in_sync: int = 0,
    durability: Literal["disk", "memory"] = "disk",
    on_total_loss: Literal["wait", "restart"] = "wait",
    minimum: int = 0,
    membership: Literal["infrastructure", "application", ""] = "",
    properties: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    on: str = "",
    never_lead: str = "",
    streams: Annotated[list[str] | None, Parameter(name="--stream", negative=())] = None,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Create a group of a class.

    Parameters
    ----------
    name
        The group's name.
    class_name
        The class, as package.module:Class, found in the directory given to `holdfast up --app`.
    style
        stateless, cold_passive, warm_passive or active. Without it, `holdfast properties` of the class or the
        domain decide, or else warm_passive.
    replicas
        On how many hosts. Without it, `holdfast properties` decide, or else 3.
    args
        The arguments that the object is created with, as a JSON array.
    min_in_sync
        How many members hold an operation before it is acknowledged; 0 means two, or one if there are only
        one or two replicas.
    durability
        Whether they hold it on disk or in memory; what is in memory is lost when all in-sync processes are
        gone.
    on_total_loss
        What a group in memory does then: wait for a person, or restart from its newest checkpoint.
    minimum
        How many members are maintained, by creating new ones elsewhere when hosts are lost. Without it,
        `holdfast properties` decide, or else all replicas.
    membership
        Who maintains them: the infrastructure, or the application by adding and removing members.
    properties
        Other properties, each as NAME=VALUE.
    on
        The hosts that have its members, and no others, separated by commas. Without it, the manager chooses.
    never_lead
        Those of them whose members hold and acknowledge, and are never primary.
    streams
        A stream whose messages its members take, bound as `holdfast stream bind` does it.
    output
        `table` for people, `json` for machines.
    """
    wanted = CreateGroup(
        name=name,
        class_name=class_name,
        style=style,
        replicas=replicas,
        arguments=args,
        min_in_sync=min_in_sync,
        durability=durability,
        on_total_loss=on_total_loss,
        minimum=minimum,
        membership=membership,
        properties=msgspec.json.encode(assignments(properties or [])).decode(),
        hosts=hosts_in(on),
        never_lead=hosts_in(never_lead),
    )
    made = _done(at, wanted)
    for each in streams or ():
        uvloop.run(give_at(at.target, BindStream(name=each, group=name), StreamList))
    return _show_one(made, output)


@app.command(name="list")
def list_(
    *,
    whole: Annotated[bool, Parameter(name="--all", negative="")] = False,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Show all groups.

    Parameters
    ----------
    whole
        Also those that the domain created for itself, such as the fault notifier.
    output
        `table` for people, `json` for machines.
    """
    found = _done(at, ListGroups(is_whole=whole))
    if output == "json":
        print_json({"groups": found})
    else:
        _print(found)
    return 0


@app.command
def show(name: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Show one group: members without their object, why checkpoints failed, and poisoned calls.

    A poisoned call was given up because it ended too many processes.

    Parameters
    ----------
    name
        Its name.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(at.target, ShowHistory(name=name), GroupHistory))
    if output == "json":
        print_json(
            msgspec.to_builtins(found.group)
            | {
                "poisoned": found.poisoned,
                "code_changes": found.code_changes,
                "checkpoints_failed": found.checkpoints_failed,
            }
        )
        return 0
    _print((found.group,))
    _print_places(found.group)
    for each in found.group.without_object:
        said = f"{each.host} has no object{', and never leads' if each.never_leads else ''}: {each.why}"
        talk.print(said, style="yellow", markup=False, soft_wrap=True)
    print_codes(found.group)
    print_unkept(found)
    if found.poisoned:
        print_poisoned(found)
    return 0


@app.command
def history(name: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Show the latest views of a group: who was primary, why that changed, what it took; and poisoned calls.

    Times count from when the new primary had reason to claim: until the authority's answer, until everything
    it held was committed, and until the object was ready for calls.

    Parameters
    ----------
    name
        Its name.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(give_at(at.target, ShowHistory(name=name), GroupHistory))
    if output == "json":
        print_json({name: getattr(found, name) for name in found.__struct_fields__})
    else:
        print_history(found)
    return 0


@app.command
def handover(name: str, host: str, *, at: Where = HERE, output: Output = "table") -> int:
    """As set-primary, for groups of every style: in active ones, the primary orders the operations.

    Parameters
    ----------
    name
        The group's name.
    host
        The host that is to be primary.
    output
        `table` for people, `json` for machines.
    """
    return primary_set(SetPrimary(name=name, host=check_host(at.target, host), is_any_style=True), at, output)


@app.command
def delete(
    name: str,
    *,
    yes: Annotated[bool, Parameter(negative="")] = False,
    at: Where = HERE,
) -> int:
    """Delete a group, and its state with it. At a terminal it shows the group and asks.

    Parameters
    ----------
    name
        Its name.
    yes
        Do not ask.
    """
    if not yes and sys.stdin.isatty():
        _print(_done(at, ListGroups(name=name)))
        question = f"Delete {name}, and its state on all its hosts? This cannot be undone. [y/N] "
        if not is_agreed(question):
            talk.print("nothing was changed")
            return EXIT_DECLINED
    _done(at, DeleteGroup(name=name))
    talk.print(f"{name} is deleted", markup=False)
    return 0


def _print_places(info: GroupInfo) -> None:
    """Say which hosts were named, and which members never lead."""
    if info.named:
        missing = [host for host in info.named if host not in info.in_sync]
        others = [host for host in (*info.placed_on, *info.leaving) if host not in info.named]
        said = [f"named hosts: {', '.join(info.named)}"]
        said += [f"not in sync yet: {', '.join(missing)}"] if missing else []
        said += [f"to go: {', '.join(others)}"] if others else []
        talk.print("; ".join(said), markup=False, soft_wrap=True)
    if info.never_lead:
        talk.print(f"never lead: {', '.join(info.never_lead)}", markup=False, soft_wrap=True)


def _done(at: Where, wanted: CreateGroup | DeleteGroup | ListGroups) -> tuple[GroupInfo, ...]:
    return uvloop.run(order_at(at.target, wanted))


def _show_one(found: tuple[GroupInfo, ...], output: Output) -> int:
    if output == "json":
        print_json(found[0])
    else:
        _print(found)
    return 0


def _print(found: tuple[GroupInfo, ...]) -> None:
    for each in found:
        if each.min_in_sync == 1 and each.style != STATELESS:
            said = "min_in_sync is 1: after a cut, the loss of one machine can lose acknowledged calls"
            talk.print(f"{each.name}: {said}", style="red", markup=False, soft_wrap=True)
    print_table(
        ("group", "number", "class", "style", "epoch", "primary", "in sync", "placed on", "leaving"),
        (
            (
                each.name,
                each.group,
                each.class_name,
                each.style,
                each.epoch,
                each.primary or "-",
                " ".join(each.in_sync),
                " ".join(each.placed_on),
                " ".join(each.leaving) or "-",
            )
            for each in found
        ),
    )
