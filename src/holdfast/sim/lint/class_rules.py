"""Finds, in the methods of a group's class, what would differ between members or between replays.

The checks are those for Holdfast's own cores (:mod:`.imports`, :mod:`.set_order`), with two differences. What
a module imports does not matter, only what a method uses. And the advice addresses people who write classes,
who have :data:`holdfast.context` where a core has ports. Functions of the same module that a method calls are
read as well. Where the lint is wrong, a line may end in ``# fence: <why this is the same in every replay>``.

Two more mistakes are reported:

- State changes that no checkpoint and no replay includes (:func:`uncaptured`). A group's state is the
  attributes of its object, and operations change them. What a query changes is changed on one member only.
  What a method changes in its module or class is not captured, and is shared by all groups of the class on a
  host.
- Calls to other groups that a method does not await, and that are therefore never made (:func:`unawaited`).
  The methods of ``hf.context.group(...)`` return something to ``await``. In an ``async def`` method such a
  call is wrong where its result is unused or returned; in any other method it is wrong everywhere.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.sim.lint.imports import FORBIDDEN_MODULES, touches
from holdfast.sim.lint.set_order import INSTEAD as ORDER_INSTEAD
from holdfast.sim.lint.set_order import set_walks

Function = ast.FunctionDef | ast.AsyncFunctionDef
Finding = tuple[int, str, str, str]
"""(line, kind, what was found, what to use instead)"""

ATTRIBUTE: Final = "an attribute of the object: other state is not captured"
OPERATION: Final = "an operation, without @hf.query: a query runs on one member only"

CHANGERS: Final = frozenset(
    {
        *("append", "extend", "insert", "remove", "pop", "popleft", "appendleft", "clear", "sort", "reverse"),
        *("update", "setdefault", "popitem", "add", "discard", "difference_update", "intersection_update"),
    }
)
"""Methods of containers that change the container."""


def uncaptured(tree: ast.Module, methods: list[Function], class_name: str) -> Iterator[Finding]:
    """Find what *methods* of the class of that name change outside their object's state."""
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
    """Yield where *function* changes an attribute or item, and which one.

    Examples are ``a.b = 1``, ``del a[b]`` and ``a.b.append(1)``.
    """
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                yield from ((node, each) for target in targets for each in _state_places(target))
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
                yield from ((node, each) for each in _state_places(target))
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CHANGERS:
                yield node, value


def _state_places(target: ast.expr) -> Iterator[ast.expr]:
    match target:
        case ast.Attribute() | ast.Subscript():
            yield target
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _state_places(part)


def _root(place: ast.expr) -> str:
    """Return the name that a target begins with: ``self`` for ``self.a[0].b``."""
    while isinstance(place, ast.Attribute | ast.Subscript):
        place = place.value
    return place.id if isinstance(place, ast.Name) else ""


def _assigned(node: ast.stmt) -> Iterator[str]:
    """Yield the variables that a statement of a module sets."""
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


INSTEAD: Final = (
    "`await` before it, in an `async def` method; or hf.context.send(...), which waits for nothing"
)
SHOWN_CHARACTERS: Final = 60


def unawaited(tree: ast.Module) -> Iterator[Finding]:
    """Find calls to other groups that no function of the module awaits."""
    for function in ast.walk(tree):
        if isinstance(function, Function):
            groups = set(_groups_named(function))
            for call in _left(function):
                match call:
                    case ast.Call(func=ast.Attribute(value=called)) if _is_group(called, groups):
                        shown = ast.unparse(call)[:SHOWN_CHARACTERS]
                        yield call.lineno, "await", f"{shown} is not awaited, so it is never made", INSTEAD


def _left(function: Function) -> Iterator[ast.expr]:
    """Yield the expressions whose value can no longer be awaited."""
    for node in ast.walk(function):
        match node:
            case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
                yield value
            case ast.Call() if isinstance(function, ast.FunctionDef):
                yield node


def _groups_named(function: Function) -> Iterator[str]:
    """Yield the variables that hold another group."""
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


_KEEP: Final = "a call from outside the group: whoever does the work calls the group with its result"

ADVICE: Final = {
    "the Clock port": ("clock", "hf.context.time()"),
    "the Timers port": ("clock", "hf.context.call_later(...)"),
    "the Random port": ("randomness", "hf.context.random, or hf.context.uuid4()"),
    "the Disk port": ("io", f"attributes of the object, or {_KEEP}"),
    "the Network port": ("io", f"await hf.context.group(...), or {_KEEP}"),
    "a port, bound to the machine by a driver": ("io", _KEEP),
    "nothing: a core runs each event to its end and is called back": (
        "threads",
        "hf.context.call_later(...) for later, await hf.context.group(...) for other groups",
    ),
}
"""Maps what a core would use to (kind, what a method uses)."""

HARMLESS_MODULES: Final = frozenset({"logging", "structlog"})
"""Modules that change nothing a replay could see; a replay only logs again."""
HARMLESS: Final = frozenset(
    {
        "uuid.UUID",
        "uuid.uuid3",
        "uuid.uuid5",
        "uuid.NAMESPACE_DNS",
        "uuid.NAMESPACE_URL",
        "uuid.NAMESPACE_OID",
        "uuid.NAMESPACE_X500",
        "io.BytesIO",
        "io.StringIO",
        "os.path",
        "os.fspath",
        "pathlib.PurePath",
        "pathlib.PurePosixPath",
        "secrets.compare_digest",
        "http.HTTPStatus",
        "asyncio.CancelledError",
    }
)
"""Values and pure functions of modules that otherwise touch the machine."""
HARMLESS_CALLS: Final = frozenset({"print()", "__import__()"})


@dataclass(frozen=True, slots=True)
class Caution:
    """One line of a method that needs attention, and what to write instead."""

    file: str
    line: int
    method: str
    kind: str
    """``clock``, ``randomness``, ``threads``, ``io``, ``order``, ``state`` or ``await``. Findings of an
    exercise may also be ``replay``, ``query`` or ``result``; findings about the whole class ``made``,
    ``place`` or ``interleaved``."""
    what: str
    instead: str


def cautions_in(source: str, file: str, class_name: str) -> list[Caution]:
    """Return what needs attention in the methods of one class, by line.

    *class_name* is qualified for a nested class.
    """
    tree = ast.parse(source, file)
    methods = _methods(tree, class_name)
    excused = {
        number for number, line in enumerate(source.splitlines(), start=1) if re.search(r"# fence: \S", line)
    }
    places = _places(tree, methods)
    found = [
        Caution(file, line, places[line], kind, what, instead)
        for line, kind, what, instead in (
            *_findings(tree),
            *uncaptured(tree, methods, class_name),
            *unawaited(tree),
        )
        if line in places and line not in excused
    ]
    # The general checks and the imports may both report the same use.
    return sorted(dict.fromkeys(found), key=lambda each: (each.line, each.what))


def _findings(tree: ast.Module) -> Iterator[Finding]:
    for line, what, port in touches(tree):
        if not what.startswith("import of ") and what not in HARMLESS_CALLS:
            kind, instead = ADVICE.get(port, ("order" if what in ("hash()", "id()") else "io", port))
            yield line, kind, what, instead
    for line in set_walks(tree):
        yield line, "order", "the order of a set", ORDER_INSTEAD
    imported = _imported(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                yield from _use(node, imported)
            case ast.Global(names=names):
                yield (
                    node.lineno,
                    "state",
                    f"global {', '.join(names)}",
                    ATTRIBUTE,
                )


def _use(node: ast.Name | ast.Attribute, imported: dict[str, str]) -> Iterator[Finding]:
    """Report the use of something imported from a module that touches the machine."""
    name = _dotted(node, imported)
    if name is None:
        return
    module = name.partition(".")[0]
    port = FORBIDDEN_MODULES.get(module)
    if module == "random" and name not in ("random", "random.Random"):
        # The module itself is not forbidden: a method may seed its own generator.
        port = "the Random port"
    is_whole = "." not in name
    if port is None or is_whole or module in HARMLESS_MODULES:
        return
    if any(name == each or name.startswith(each + ".") for each in HARMLESS):
        return
    kind, instead = ADVICE.get(port, ("io", port))
    if name in ("asyncio.sleep", "time.sleep"):
        instead = "hf.context.call_later(...), and end the method here"
    yield node.lineno, kind, name, instead


def _dotted(node: ast.expr, imported: dict[str, str]) -> str | None:
    """Return the full name of what is used, if its first part was imported: at most module and attribute."""
    match node:
        case ast.Name(id=name):
            return imported.get(name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in imported:
            return f"{imported[name]}.{attribute}"
    return None


def _imported(tree: ast.Module) -> dict[str, str]:
    """Map the local names of everything imported anywhere in the module to the full names."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    local = each.asname or each.name.partition(".")[0]
                    found[local] = each.name if each.asname else local
            case ast.ImportFrom(module=str(module), level=0, names=names):
                found |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
    return found


def _methods(tree: ast.Module, class_name: str) -> list[Function]:
    """Return the functions in the class body."""
    body: list[ast.stmt] = tree.body
    for part in class_name.split("."):
        found = [node for node in body if isinstance(node, ast.ClassDef) and node.name == part]
        if not found:
            return []
        body = found[-1].body
    return [node for node in body if isinstance(node, Function)]


def _places(tree: ast.Module, methods: list[Function]) -> dict[int, str]:
    """Map every line that runs when a method is called to the name of its function."""
    functions = {node.name: node for node in tree.body if isinstance(node, Function)}
    places: dict[int, str] = {}
    waiting: list[Function] = list(methods)
    seen: set[str] = set()
    while waiting:
        function = waiting.pop()
        for line in range(function.lineno, (function.end_lineno or function.lineno) + 1):
            places.setdefault(line, function.name)
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in functions and node.id not in seen:
                seen.add(node.id)
                waiting.append(functions[node.id])
    return places
