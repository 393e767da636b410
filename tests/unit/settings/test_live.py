"""What is said to change without a restart does: no part of a group keeps an older value of it."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from style_groups import ALL, group, write

from holdfast.settings.sections import AT_RESTART
from holdfast.styles.config import StyleConfig

FIELDS = StyleConfig.__struct_fields__
UNUSUAL = msgspec.structs.replace(
    StyleConfig(), **{name: getattr(StyleConfig(), name) + 1_000_003 + 7 * n for n, name in enumerate(FIELDS)}
)
"""Every value is found nowhere else."""
LATER = msgspec.structs.replace(
    StyleConfig(), **{name: getattr(StyleConfig(), name) + 2_000_003 + 7 * n for n, name in enumerate(FIELDS)}
)


PASSED_ON = {"Repetitions": ("keyed_bytes_max", "keyed_caller_bytes_max")}
"""Parts that read nothing themselves of the settings that they keep, and what those read to whom they pass
them on."""


def parts(found: Any, seen: dict[int, Any]) -> Iterator[tuple[Any, str, Any]]:
    """Every object of ours below *found*, with its attributes."""
    is_ours = type(found).__module__.startswith("holdfast.") and not isinstance(found, StyleConfig)
    if id(found) in seen or not is_ours:
        return
    seen[id(found)] = found
    slots = [name for cls in type(found).__mro__ for name in getattr(cls, "__slots__", ())]
    names = dict.fromkeys((*getattr(found, "__dict__", ()), *slots))
    for name in names:
        value = getattr(found, name, None)
        yield found, name, value
        yield from parts(value, seen)


def read_by(cls: type) -> set[str]:
    """The fields of the settings that the class's own code reads of anything."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in FIELDS}


def stale(replica: Any) -> set[str]:
    """The fields of which some part of the replica still knows the first value."""
    first = {getattr(UNUSUAL, name): name for name in FIELDS}
    found: set[str] = set()
    for owner, _, value in parts(replica, {}):
        if value is UNUSUAL:
            read = {name for cls in type(owner).__mro__[:-1] for name in read_by(cls)}
            found |= read or set(PASSED_ON[type(owner).__name__])
        elif isinstance(value, int) and not isinstance(value, bool) and value in first:
            found.add(first[value])
    return found


@pytest.mark.parametrize("style", ALL)
def test_only_what_waits_for_a_restart_is_kept_by_a_member(style: str) -> None:
    """A part that copies a value when it is made, or keeps the settings that it was made with, belongs to the
    table of what is taken at a restart."""
    made = group(style, config=UNUSUAL)
    write(made, 1, 2, 3)
    made.settle()
    for replica in made.replicas.values():
        assert any(value is UNUSUAL for _, _, value in parts(replica, {}))  # it is found where it is kept
        replica.tune(LATER)
        assert replica._config is LATER
        assert sorted(stale(replica) - set(AT_RESTART["execution"])) == []
