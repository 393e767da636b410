"""What a module's source says, apart from how it is written: a digest, and which modules it imports.

Comments, docstrings and layout change nothing of what a class does, so they change nothing here: the digest
is of the syntax tree, without positions, without strings that stand alone, and without what is empty, which
is how later versions of Python add to the tree.
"""

import ast
import hashlib
from collections.abc import Iterator
from typing import Final

from holdfast.node.class_source import BadClass, quiet_parser

DIGEST_BYTES: Final = 16
_PASSED_OVER: Final = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields that say nothing which the rest does not say."""
_NODE, _FIELD, _VALUE, _END = b"\x01", b"\x02", b"\x03", b"\x04"


def parsed(source: bytes, name: str) -> ast.Module:
    """The tree of a module's source; *name* is for the refusal. Raises :class:`BadClass`."""
    try:
        with quiet_parser():
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise BadClass(f"{name} cannot be read{line}: {said}") from None


def digest_of(tree: ast.Module) -> bytes:
    """Equal for sources that differ in comments, docstrings and layout only."""
    total = hashlib.blake2b(digest_size=DIGEST_BYTES)
    # A stack, not recursion: how deep a source nests is its author's to say.
    waiting: list[object] = [tree]
    while waiting:
        found = waiting.pop()
        match found:
            case bytes():  # a mark of ours: what is of the source comes as a node or in a ``_Value``
                total.update(found)
            case _Value(text=text):
                total.update(_VALUE + len(text).to_bytes(4, "big") + text)
            case ast.AST():
                waiting.append(_END)
                waiting.extend(reversed(list(_fields(found))))
                waiting.append(_NODE + type(found).__name__.encode())
    return total.digest()


def imports_in(tree: ast.Module, module: str, *, is_package: bool) -> list[str]:
    """The dotted names that *module* may import, wherever in it: some may be no modules but names in one."""
    found: dict[str, None] = {}
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found.update(dict.fromkeys(each.name for each in names))
            case ast.ImportFrom(module=base, names=names, level=level):
                within = _absolute(base or "", level, package)
                found.update(dict.fromkeys((within, *(f"{within}.{each.name}" for each in names if within))))
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if _imports(func):
                level = len(name) - len(name.lstrip("."))
                found[_absolute(name[level:], level, package)] = None
    return [each for each in found if each]


class _Value:
    """A value that stands in the source, as bytes."""

    __slots__ = ("text",)

    def __init__(self, value: object) -> None:
        shown = hex(value) if type(value) is int else repr(value)
        self.text = f"{type(value).__name__}:{shown}".encode("utf-8", "surrogatepass")


def _fields(node: ast.AST) -> Iterator[object]:
    for name, value in ast.iter_fields(node):
        if name in _PASSED_OVER:
            continue
        if isinstance(node, ast.Constant) and name == "value":
            yield _FIELD + name.encode()
            yield _Value(value)
            continue
        values = [each for each in value if not _says_nothing(each)] if isinstance(value, list) else [value]
        if not values or value is None:
            continue
        yield _FIELD + name.encode() + len(values).to_bytes(4, "big")
        yield from (each if isinstance(each, ast.AST) else _Value(each) for each in values)


def _says_nothing(statement: object) -> bool:
    """Whether it is a string that stands alone: a docstring, of whatever it stands behind."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _absolute(name: str, level: int, package: str) -> str:
    """What a relative import means; empty when it leads out of everything."""
    if level == 0:
        return name
    parts = package.split(".") if package else []
    if level - 1 > len(parts) or not parts:
        return ""
    base = ".".join(parts[: len(parts) - (level - 1)])
    return f"{base}.{name}".strip(".")


def _imports(func: ast.expr) -> bool:
    match func:
        case ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"):
            return True
    return False
