"""State that a class changes where no checkpoint and no replay finds it.

A group's state is the attributes of its object, and operations change them. What a query changes is changed
on one member only; what a method changes of its module or its class is not captured, and shared by all groups
of the class on a host.
"""

import ast
from collections.abc import Iterator
from typing import Final

Function = ast.FunctionDef | ast.AsyncFunctionDef
Finding = tuple[int, str, str, str]
"""(line, kind, what, what instead)"""

ATTRIBUTE: Final = "an attribute of the object: other state is not captured"
OPERATION: Final = "an operation, without @hf.query: a query runs on one member only"

CHANGERS: Final = frozenset(
    {
        *("append", "extend", "insert", "remove", "pop", "popleft", "appendleft", "clear", "sort", "reverse"),
        *("update", "setdefault", "popitem", "add", "discard", "difference_update", "intersection_update"),
    }
)
"""Methods of containers that change them."""


def uncaptured(tree: ast.Module, methods: list[Function], class_name: str) -> Iterator[Finding]:
    """What *methods*, those of the class of that name, change beside their object's state."""
    variables = {name for node in tree.body for name in _assigned(node)}
    for method in methods:
        me, local = _first_argument(method), _local_names(method)
        for node, target in _changes(method):
            root = _root(target)
            what = ast.unparse(target)
            if root == me and _is_query(method):
                yield node.lineno, "state", f"a query changes {what}", OPERATION
            elif root == class_name or what.startswith(f"type({me})."):
                yield node.lineno, "state", f"{what}, which all groups of the class share", ATTRIBUTE
            elif root in variables - local:
                yield node.lineno, "state", f"{what}, a variable of the module", ATTRIBUTE


def _changes(function: Function) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr]]:
    """Where *function* changes something that has a place, and what: ``a.b = 1``, ``del a[b]``,
    ``a.b.append(1)``."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from ((node, each) for target in targets for each in _places(target))
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
                yield from ((node, each) for each in _places(target))
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CHANGERS:
                yield node, value


def _places(target: ast.expr) -> Iterator[ast.expr]:
    match target:
        case ast.Attribute() | ast.Subscript():
            yield target
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _places(part)


def _root(place: ast.expr) -> str:
    """The name that a place begins with: of ``self.a[0].b`` it is ``self``."""
    while isinstance(place, ast.Attribute | ast.Subscript):
        place = place.value
    return place.id if isinstance(place, ast.Name) else ""


def _assigned(node: ast.stmt) -> Iterator[str]:
    """The variables that a statement of a module sets."""
    match node:
        case ast.Assign(targets=targets):
            yield from (each.id for each in targets if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _local_names(function: Function) -> set[str]:
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    stored = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return arguments | stored


def _first_argument(function: Function) -> str:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return arguments[0].arg if arguments else ""


def _is_query(function: Function) -> bool:
    names = (
        ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in function.decorator_list
    )
    return any(name.rpartition(".")[2] == "query" for name in names)
