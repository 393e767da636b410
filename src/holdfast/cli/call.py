"""`holdfast call`: one call of one method, arguments and answer in JSON."""

from typing import Any

import msgspec
import uvloop

from holdfast.calling.config import CallPolicy
from holdfast.cli.domain import Dir
from holdfast.cli.output import print_json
from holdfast.client.domain import connect
from holdfast.model.errors import InvalidRequest
from holdfast.model.units import SECOND
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.node.reaching import url_of


def call(name: str, method: str, *args: str, dir: Dir = DIRECTORY_DEFAULT, timeout: float = 30.0) -> int:
    """Call a method of a group and print what it returns.

    Parameters
    ----------
    name
        The group's name.
    method
        The method's name.
    args
        Its arguments, each as JSON: '"alice"' is a text, 5 a number.
    timeout
        Seconds for which the call is tried, wherever it may be served.
    """
    arguments = [_decoded(each) for each in args]
    print_json(uvloop.run(_call(Layout(dir), name, method, arguments, timeout)))
    return 0


async def _call(layout: Layout, name: str, method: str, arguments: list[Any], timeout: float) -> Any:
    policy = CallPolicy(duration_ns=round(timeout * SECOND))
    async with connect(await url_of(layout, layout.read()), policy=policy) as domain:
        group = await domain.group(name)
        return await group.call(method, *arguments)


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"the argument {text} is not JSON ({error}); a text is written '\"text\"'"
        ) from None
