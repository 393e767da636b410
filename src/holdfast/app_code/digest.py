"""The code of a class (E7): the version it declares, and a digest of its module and of what that imports.

What counts is what the application's directories hold, since that is what its author edits: Python and
installed packages are shown to people and not compared. A class of an installed package counts with its own
module; Holdfast's own are known by the versions they declare.

What a module's source says, apart from how it is written: a digest, and which modules it imports.

Comments, docstrings and layout change nothing of what a class does, so they change nothing here: the digest
is of the syntax tree, without positions, without strings that stand alone, and without what is empty, which
is how later versions of Python add to the tree.

The application's modules as this process has them: the very source that was run, or will be.

A file may be edited while the process lives, and its edited source must not be taken for the one that runs
(E7). So modules of the application's directories are compiled from source that is read here, once, and
remembered; no bytecode that stands beside it is used, which may be of an earlier edit within the same second.
A module whose source was asked for before it was imported is imported from that source.
"""

import ast
import hashlib
import importlib.machinery
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from holdfast.app_code.finder import SOURCE_BYTES_MAX, BadClass, ModuleSource, find_module, quiet_parser
from holdfast.model.code import Code

MODULES_MAX: Final = 10_000
"""Remembered of a process, each up to the length that a module may have."""


@dataclass(slots=True)
class _Remembered:
    file: Path
    source: bytes
    is_package: bool
    is_run: bool = False


@dataclass(frozen=True, slots=True)
class ModuleText:
    """A module of the application, as this process has it."""

    module: str
    is_package: bool
    source: bytes

    @property
    def path(self) -> str:
        """Where it lies in a directory of modules."""
        name = self.module.replace(".", "/")
        return f"{name}/__init__.py" if self.is_package else f"{name}.py"


class AppModules(MetaPathFinder):
    """Those of the directories that *apps* gives. There is one, as there is one ``sys.modules``."""

    def __init__(self, apps: Callable[[], Sequence[Path]]) -> None:
        self._apps = apps
        self._modules: dict[str, _Remembered] = {}

    def install(self) -> None:
        """Let imports go by here first; once."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def text(self, module: str) -> ModuleText | None:
        """The source of *module* that runs here, or will when it is imported; None when the application has
        no such module. Raises :class:`BadClass` for one that cannot be read."""
        known = self._modules.get(module)
        if module in sys.modules:
            # Without being remembered it is another's, from before the application had a directory.
            is_ours = known is not None and known.is_run
            return ModuleText(module, known.is_package, known.source) if known and is_ours else None
        found = find_module(module, self._apps())
        if found is None:
            return None
        known = self._to_run(found)
        return ModuleText(module, known.is_package, known.source)

    def source_to_run(self, module: str) -> bytes:
        """What is run as it is imported. Raises ``ImportError``."""
        try:
            found = find_module(module, self._apps())
            if found is None:
                raise ImportError(f"{module} is not there any more", name=module)
            known = self._to_run(found)
        except BadClass as error:
            raise ImportError(str(error), name=module) from None
        known.is_run = True
        return known.source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """As the interpreter finds it; of the application's, what is run is read here."""
        try:
            found = find_module(fullname, self._apps())
        except BadClass:
            return None  # it is not the application's
        if found is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not spec.origin or Path(spec.origin).resolve() != found.file:
            return None
        if not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return None
        spec.loader = _Loader(fullname, spec.origin, self)
        spec.cached = None
        return spec

    def _to_run(self, found: ModuleSource) -> _Remembered:
        """What was asked for before it was imported, or else what is written there now."""
        known = self._modules.get(found.module)
        if known is not None and not known.is_run and known.file == found.file:
            return known
        if len(self._modules) >= MODULES_MAX and found.module not in self._modules:
            raise BadClass(f"{found.module} is one module too many: a process knows {MODULES_MAX:,} at most")
        known = _Remembered(found.file, found.read(), found.is_package)
        self._modules[found.module] = known
        return known


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles what is remembered."""

    def __init__(self, fullname: str, path: str, modules: AppModules) -> None:
        super().__init__(fullname, path)
        self._modules = modules

    def get_code(self, fullname: str) -> CodeType | None:
        source = self._modules.source_to_run(fullname)
        return compile(source, self.path, "exec", dont_inherit=True)


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


VERSION: Final = "version"
"""The attribute by which a class says what its author calls it: a ``str``."""
VERSION_CHARACTERS_MAX: Final = 100
CLASS_MODULES_MAX: Final = 1_000
"""Of one class: its module, what it imports from the application, what those import, and so on."""
BYTES_MAX: Final = 16 << 20
"""Of all their sources."""
_OWN: Final = "holdfast"

Text = Callable[[str], ModuleText | None]
"""The source of a module of the application (:meth:`AppModules.text`)."""


@dataclass(frozen=True, slots=True)
class ClassCode:
    """The code of a class, with the sources that it is of."""

    code: Code
    modules: tuple[ModuleText, ...]
    """By name. None: there is nothing to keep, and nothing could be replayed by a kept copy."""


def code_of(cls: type, text: Text) -> ClassCode:
    """The code of *cls*, which was imported. Raises :class:`BadClass`."""
    version, module = version_of(cls), cls.__module__
    if text(module) is not None:
        modules = modules_from(module, text)
        return ClassCode(Code(version, digest_of_all(modules)), modules)
    if module.partition(".")[0] == _OWN:
        return ClassCode(Code(version, _digest(f"{_OWN} {cls.__qualname__} {version}")), ())
    return ClassCode(Code(version, _digest_of_installed(module)), ())


def version_of(cls: type) -> str:
    """As the class declares it; empty when it does not. Raises :class:`BadClass`."""
    found = getattr(cls, VERSION, "")
    if not isinstance(found, str):
        return ""  # an operation of that name, or an attribute of the object's: no word of its author's
    if len(found) > VERSION_CHARACTERS_MAX or not found.isprintable():
        said = f"at most {VERSION_CHARACTERS_MAX} printable characters"
        raise BadClass(f"{cls.__name__}.{VERSION} is no version: write {said}")
    return found


def modules_from(module: str, text: Text) -> tuple[ModuleText, ...]:
    """*module* and all that it imports of the application, at whatever distance, by name. Raises
    :class:`BadClass` when they are too many."""
    found: dict[str, ModuleText] = {}
    waiting, size = [module], 0
    while waiting:
        for name in _with_packages(waiting.pop()):
            each = text(name) if name not in found else None
            if each is None:
                continue
            found[name] = each
            size += len(each.source)
            if len(found) > CLASS_MODULES_MAX or size > BYTES_MAX:
                said = f"more than {CLASS_MODULES_MAX:,} modules or {BYTES_MAX >> 20} MiB of source"
                raise BadClass(f"{module} imports {said} from the application's directories")
            tree = parsed(each.source, name)
            waiting.extend(imports_in(tree, name, is_package=each.is_package))
    return tuple(found[name] for name in sorted(found))


def digest_of_all(modules: tuple[ModuleText, ...]) -> str:
    """Of sources, whatever directory they lie in."""
    total = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for each in modules:
        total.update(f"{each.module}\0{each.is_package:d}\0".encode())
        total.update(digest_of(parsed(each.source, each.module)))
    return total.hexdigest()


def python_here() -> str:
    """Shown to people beside a code; not compared."""
    return f"{platform.python_implementation()} {platform.python_version()}"


def _with_packages(name: str) -> list[str]:
    """A module's name behind those of the packages around it: importing it runs them."""
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _digest_of_installed(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        source = Path(file or "").read_bytes() if file is not None and file.endswith(".py") else b""
    except OSError:
        source = b""
    if not source or len(source) > SOURCE_BYTES_MAX:
        return ""
    return _digest(f"{module} {digest_of(parsed(source, module)).hex()}")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()
