"""The code of a class: the version it declares, and a digest of its module and its imports (E7).

Only modules in the application's directories count, because those are what its author edits; Python and
installed packages are shown to people and not compared. A class of an installed package counts with its own
module only. Holdfast's own classes are identified by the versions they declare.

Comments, docstrings and layout do not change what a class does, so they do not change the digest.
:func:`digest_of` covers the syntax tree without positions, without standalone strings, and without empty
fields, which is how later versions of Python extend the tree. :func:`imports_in` finds the modules that a
source imports.

A file may be edited while the process runs, and the edited source must not be taken for the one that runs
(E7). :class:`AppModules` therefore compiles the application's modules from source that it reads once and
remembers. It uses no bytecode files, which may come from an earlier edit within the same second. If a
module's source was requested before its import, the module is imported from that source.
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
"""The most modules that a process remembers."""


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
        """Its path inside a directory of modules."""
        name = self.module.replace(".", "/")
        return f"{name}/__init__.py" if self.is_package else f"{name}.py"


class AppModules(MetaPathFinder):
    """The modules in the directories that *apps* returns; one instance, as there is one ``sys.modules``."""

    def __init__(self, apps: Callable[[], Sequence[Path]]) -> None:
        self._apps = apps
        self._modules: dict[str, _Remembered] = {}

    def install(self) -> None:
        """Put this first among the import finders, once."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def text(self, module: str) -> ModuleText | None:
        """The source of *module* that runs here, or will run when it is imported.

        None when the application has no such module. Raises :class:`BadClass` for one that cannot be read.
        """
        known = self._modules.get(module)
        if module in sys.modules:
            # A module that is not remembered was imported before the application had a directory, so it is
            # not the application's.
            is_ours = known is not None and known.is_run
            return ModuleText(module, known.is_package, known.source) if known and is_ours else None
        found = find_module(module, self._apps())
        if found is None:
            return None
        known = self._to_run(found)
        return ModuleText(module, known.is_package, known.source)

    def source_to_run(self, module: str) -> bytes:
        """The source to execute when *module* is imported. Raises ``ImportError``."""
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
        """Find a module as the interpreter does, but load the application's from the remembered source."""
        try:
            found = find_module(fullname, self._apps())
        except BadClass:
            return None  # it is not a module of the application
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
        """The source requested before the import, or else the file's current content."""
        known = self._modules.get(found.module)
        if known is not None and not known.is_run and known.file == found.file:
            return known
        if len(self._modules) >= MODULES_MAX and found.module not in self._modules:
            raise BadClass(f"{found.module} is one module too many: a process knows {MODULES_MAX:,} at most")
        known = _Remembered(found.file, found.read(), found.is_package)
        self._modules[found.module] = known
        return known


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the remembered source."""

    def __init__(self, fullname: str, path: str, modules: AppModules) -> None:
        super().__init__(fullname, path)
        self._modules = modules

    def get_code(self, fullname: str) -> CodeType | None:
        source = self._modules.source_to_run(fullname)
        return compile(source, self.path, "exec", dont_inherit=True)


DIGEST_BYTES: Final = 16
_IGNORED_FIELDS: Final = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields of the syntax tree that repeat what other fields say."""
_NODE, _FIELD, _VALUE, _END = b"\x01", b"\x02", b"\x03", b"\x04"


def parsed(source: bytes, name: str) -> ast.Module:
    """Parse a module's source; *name* is for the error message. Raises :class:`BadClass`."""
    try:
        with quiet_parser():
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise BadClass(f"{name} cannot be read{line}: {said}") from None


def digest_of(tree: ast.Module) -> bytes:
    """The digest of a syntax tree; equal for sources that differ only in comments, docstrings and layout."""
    total = hashlib.blake2b(digest_size=DIGEST_BYTES)
    # A stack instead of recursion: the source's author decides how deep it nests.
    waiting: list[object] = [tree]
    while waiting:
        found = waiting.pop()
        match found:
            case bytes():  # a marker of ours: content of the source comes as a node or a ``_Value``
                total.update(found)
            case _Value(text=text):
                total.update(_VALUE + len(text).to_bytes(4, "big") + text)
            case ast.AST():
                waiting.append(_END)
                waiting.extend(reversed(list(_fields(found))))
                waiting.append(_NODE + type(found).__name__.encode())
    return total.digest()


def imports_in(tree: ast.Module, module: str, *, is_package: bool) -> list[str]:
    """The dotted names that *module* may import anywhere; some may be names inside a module."""
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
    """A literal value of the source, as bytes."""

    __slots__ = ("text",)

    def __init__(self, value: object) -> None:
        shown = hex(value) if type(value) is int else repr(value)
        self.text = f"{type(value).__name__}:{shown}".encode("utf-8", "surrogatepass")


def _fields(node: ast.AST) -> Iterator[object]:
    for name, value in ast.iter_fields(node):
        if name in _IGNORED_FIELDS:
            continue
        if isinstance(node, ast.Constant) and name == "value":
            yield _FIELD + name.encode()
            yield _Value(value)
            continue
        values = [each for each in value if not _is_bare_string(each)] if isinstance(value, list) else [value]
        if not values or value is None:
            continue
        yield _FIELD + name.encode() + len(values).to_bytes(4, "big")
        yield from (each if isinstance(each, ast.AST) else _Value(each) for each in values)


def _is_bare_string(statement: object) -> bool:
    """Whether *statement* is a standalone string, such as a docstring."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _absolute(name: str, level: int, package: str) -> str:
    """The absolute name of a relative import; empty when it leads outside the top-level package."""
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
"""The attribute in which a class declares its version, as a ``str``."""
VERSION_CHARACTERS_MAX: Final = 100
CLASS_MODULES_MAX: Final = 1_000
"""The most modules of one class: its own, and the application's modules it imports, directly or not."""
BYTES_MAX: Final = 16 << 20
"""The most bytes of all their sources."""
_OWN: Final = "holdfast"

Text = Callable[[str], ModuleText | None]
"""Returns the source of a module of the application (:meth:`AppModules.text`)."""


@dataclass(frozen=True, slots=True)
class ClassCode:
    """The code of a class, together with its sources."""

    code: Code
    modules: tuple[ModuleText, ...]
    """Sorted by name. When empty, there is nothing to store, and no copy could replay."""


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
    """The version that the class declares; empty when it declares none. Raises :class:`BadClass`."""
    found = getattr(cls, VERSION, "")
    if not isinstance(found, str):
        return ""  # an operation or an attribute of that name, not a version that the author declared
    if len(found) > VERSION_CHARACTERS_MAX or not found.isprintable():
        said = f"at most {VERSION_CHARACTERS_MAX} printable characters"
        raise BadClass(f"{cls.__name__}.{VERSION} is no version: write {said}")
    return found


def modules_from(module: str, text: Text) -> tuple[ModuleText, ...]:
    """*module* and all modules of the application that it imports, directly or indirectly, sorted by name.

    Raises :class:`BadClass` when there are too many.
    """
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
    """The digest of the sources, independent of their directory."""
    total = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for each in modules:
        total.update(f"{each.module}\0{each.is_package:d}\0".encode())
        total.update(digest_of(parsed(each.source, each.module)))
    return total.hexdigest()


def python_here() -> str:
    """The Python version, shown to people next to the code and not compared."""
    return f"{platform.python_implementation()} {platform.python_version()}"


def _with_packages(name: str) -> list[str]:
    """The names of the packages around a module, then its own: importing a module runs its packages."""
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
