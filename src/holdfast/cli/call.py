"""`holdfast call`: one call of one method, arguments and answer in JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec
import uvloop

from holdfast.calling.config import CallPolicy, rounded
from holdfast.cli.admin import connect_at
from holdfast.cli.output import print_json
from holdfast.cli.where import HERE, Target, Where
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import SECOND


class NotShown(HoldfastError):
    """Raised when a call was executed, but its result cannot be printed."""

    code = "not_shown"


def call(name: str, method: str, *args: str, at: Where = HERE, timeout: float = 30.0) -> int:
    """Call a method of a group and print what it returns.

    Parameters
    ----------
    name
        The group's name.
    method
        The method's name.
    args
        Its arguments, each as JSON: '"alice"' is a text, 5 a number; amount=5 is a named argument.
    timeout
        How many seconds the call is tried, at whichever host serves the group.
    """
    positional, named = parse_arguments(args)
    show(uvloop.run(_call(at.target, name, method, positional, named, timeout)))
    return 0


def show(returned: Any) -> None:
    """Print what a call returned. Raises :class:`NotShown`."""
    try:
        print_json(returned)
    except TypeError as error:  # such as for a dictionary whose keys are not strings
        said = "the call was executed, but what it returned has no form in JSON"
        raise NotShown(f"{said} ({error}): {returned!r}") from None


async def _call(
    target: Target,
    name: str,
    method: str,
    positional: list[Any],
    named: dict[str, Any],
    timeout: float,
) -> Any:
    policy = CallPolicy(duration_ns=rounded(timeout * SECOND))
    async with await connect_at(target, policy) as domain:
        group = await domain.group(name)
        return await group.call(method, *positional, **named)


def parse_arguments(args: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments and the named ones. Raises ``InvalidRequest``."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for each in args:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():  # no JSON begins with a name and "="
            if named:
                raise InvalidRequest(f"the argument {each} follows one given by name")
            positional.append(_decoded(each))
        elif name in named:
            raise InvalidRequest(f"the argument {name} is given twice")
        else:
            named[name] = _decoded(value)
    return positional, named


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise InvalidRequest(
            f"the argument {text} is not JSON ({error}); a text is written '\"text\"'"
        ) from None
