"""`holdfast properties get | set | remove`, and `holdfast group set`: the properties of groups."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import uvloop
from cyclopts import App, Parameter

from holdfast.cli.admin import give_at
from holdfast.cli.output import Output, print_json, print_table
from holdfast.cli.where import HERE, Where
from holdfast.model.admin.objects import PropertiesShown, RemoveProperties, SetProperties, ShowProperties
from holdfast.model.errors import InvalidRequest
from holdfast.model.properties import PREFIX

app = App(name="properties", help="Show and change what groups shall be like.")

OfType = Annotated[str, Parameter(name="--type")]


@app.command
def get(*, of_type: OfType = "", group: str = "", at: Where = HERE, output: Output = "table") -> int:
    """Show the domain's defaults, or what is in effect for a class or a group.

    Parameters
    ----------
    of_type
        For groups of this class that are made from now on, as package.module:Class.
    group
        For this group.
    output
        `table` for people, `json` for machines.
    """
    return _done(ShowProperties(type_id=of_type, group=group), at, output)


@app.command
def set(
    *properties: str,
    of_type: OfType = "",
    group: str = "",
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Set properties: as defaults, for a class, or for a group while it runs.

    Parameters
    ----------
    properties
        Each as NAME=VALUE; the value is JSON or a word.
    of_type
        For groups of this class that are made from now on.
    group
        For this group.
    output
        `table` for people, `json` for machines.
    """
    order = SetProperties(properties=assignments(properties), type_id=of_type, group=group)
    return _done(order, at, output)


@app.command
def remove(
    *names: str,
    of_type: OfType = "",
    group: str = "",
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Remove properties from the domain's defaults, a class or a group.

    Parameters
    ----------
    names
        The properties to remove.
    of_type
        For this class.
    group
        For this group, which then has the values it was made with.
    output
        `table` for people, `json` for machines.
    """
    return _done(RemoveProperties(properties=dict.fromkeys(names), type_id=of_type, group=group), at, output)


def set_group(name: str, *properties: str, at: Where = HERE, output: Output = "table") -> int:
    """Set properties of a group while it runs; those that can change at run time take effect at once.

    Parameters
    ----------
    name
        The group's name.
    properties
        Each as NAME=VALUE; the value is JSON or a word.
    output
        `table` for people, `json` for machines.
    """
    return _done(SetProperties(properties=assignments(properties), group=name), at, output)


def assignments(texts: Sequence[str]) -> dict[str, Any]:
    """The properties given as NAME=VALUE. Raises ``InvalidRequest``."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidRequest(f"{text!r} is not NAME=VALUE")
        try:
            found[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[name] = value
    return found


def _done(order: ShowProperties | SetProperties | RemoveProperties, at: Where, output: Output) -> int:
    shown = uvloop.run(give_at(at.target, order, PropertiesShown))
    if output == "json":
        print_json(shown)
        return 0
    print_table(
        ("property", "value", ""),
        (
            (name.removeprefix(PREFIX), msgspec.json.encode(value).decode(), "set here" * (name in shown.own))
            for name, value in sorted(shown.effective.items())
        ),
    )
    return 0
