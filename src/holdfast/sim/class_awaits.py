"""Calls to other groups that a method makes and does not await: they are never made.

``hf.context.group(...)`` gives a group whose methods give something to ``await``. In an ``async def`` method
such a call is at fault where nothing is done with it, or it is returned; in any other, wherever it stands.
"""

import ast
from collections.abc import Iterator
from typing import Final

from holdfast.sim.class_state import Finding, Function

INSTEAD: Final = (
    "`await` before it, in an `async def` method; or hf.context.send(...), which waits for nothing"
)
SHOWN_CHARACTERS: Final = 60


def unawaited(tree: ast.Module) -> Iterator[Finding]:
    """In all functions of a module."""
    for function in ast.walk(tree):
        if isinstance(function, Function):
            groups = set(_groups_named(function))
            for call in _left(function):
                match call:
                    case ast.Call(func=ast.Attribute(value=called)) if _is_group(called, groups):
                        shown = ast.unparse(call)[:SHOWN_CHARACTERS]
                        yield call.lineno, "await", f"{shown} is not awaited, so it is never made", INSTEAD


def _left(function: Function) -> Iterator[ast.expr]:
    """What nobody can await any more."""
    for node in ast.walk(function):
        match node:
            case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
                yield value
            case ast.Call() if isinstance(function, ast.FunctionDef):
                yield node


def _groups_named(function: Function) -> Iterator[str]:
    """Variables that stand for another group."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_group(value, set()):
                yield name


def _is_group(value: ast.expr, groups: set[str]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in groups
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr="group")):
            return name == "context"
    return False
