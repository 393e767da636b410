"""Finds a class in the application's directories without importing anything.

A caller that may create a group names a class, and importing a module runs it. A name from outside is
therefore looked up as a file first: the module's source must lie in a directory of the application, and a
``class`` statement there must *define* the class. A class that a module merely imports (``from subprocess
import Popen``) is not offered.

This module never runs the application's code, and it remembers only names of it.
"""

import ast
import gc
import stat
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from holdfast.model.admin.groups import CLASS_CHARACTERS_MAX
from holdfast.model.errors import InvalidRequest

PARTS_MAX: Final = 16
"""The most parts of a module's or class's dotted name: each is a directory or an enclosing class."""
SOURCE_BYTES_MAX: Final = 2_000_000
"""The longest module source: reading takes the host's time, and people write no longer modules."""
SHOWN_CHARACTERS: Final = 80
"""The most characters of a refused name that the error message shows."""
MODULES_KEPT_MAX: Final = 256


class BadClass(InvalidRequest):
    """Raised when a group's class is not found, cannot be loaded, or cannot create the group's object."""

    code = "bad_class"
    exception = "NoFactory"
    type_id = ""

    @property
    def about(self) -> dict[str, Any]:
        return {"the_location": "", "type_id": self.type_id}


@dataclass(frozen=True, slots=True)
class ClassName:
    """``package.module:Outer.Inner``, split into its parts. Every part is a valid Python name."""

    module: str
    path: str
    """The ``__qualname__`` of the class inside the module."""

    @staticmethod
    def parse(text: str) -> "ClassName":
        """Split *text*; raises :class:`BadClass` when it is not a class name."""
        if len(text) > CLASS_CHARACTERS_MAX:
            raise BadClass(f"a class's name has at most {CLASS_CHARACTERS_MAX} characters, not {len(text)}")
        module, _, path = text.partition(":")
        if not (module and path):
            raise BadClass(f"{shown(text)} is not a class: write package.module:Class")
        for part in (*_parts(text, module), *_parts(text, path)):
            if not _is_name(part):
                raise BadClass(f"{shown(text)} is not a class: {shown(part)} is not a name in Python")
        if module == "__main__":
            raise BadClass(
                f"{text} is of the program that runs here: put it into a module of the application"
            )
        return ClassName(module, path)

    def __str__(self) -> str:
        return f"{self.module}:{self.path}"


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """A module's source file in a directory of the application."""

    module: str
    """The dotted name under which it is imported."""
    file: Path
    """The file inside *directory*, without symbolic links."""
    directory: Path
    """The application's directory, without symbolic links."""
    is_package: bool
    """Whether the file is a package's ``__init__.py``."""

    def read(self) -> bytes:
        """Read the file's current content. Raises :class:`BadClass`."""
        try:
            found = self.file.stat()
            if not stat.S_ISREG(found.st_mode):  # a pipe of that name would make the host wait forever
                raise BadClass(f"{self.file} is not a file")
            if found.st_size > SOURCE_BYTES_MAX:
                raise BadClass(f"{self.file} is too long to be read: more than {SOURCE_BYTES_MAX:,} bytes")
            return self.file.read_bytes()
        except OSError as error:
            raise BadClass(f"{self.file} cannot be read: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True)
class ClassSource:
    """A class that is defined in a module of the application."""

    name: ClassName
    source: ModuleSource


def find_class(name: str, apps: Sequence[Path]) -> ClassSource:
    """Find where the directories *apps* define ``package.module:Class``, without importing anything.

    Raises :class:`BadClass` with the reason why it was not found.
    """
    wanted = ClassName.parse(name)
    source = find_module(wanted.module, apps)
    if source is None:
        raise BadClass(_not_there(wanted, apps))
    names = _names_in(source)
    if wanted.path in names.classes:
        return ClassSource(wanted, source)
    said = "imports it, and does not define it" if wanted.path in names.imported else "defines no such class"
    raise BadClass(f"{wanted} is not a class of the application: {source.file.name} {said}")


def find_value(name: str, apps: Sequence[Path]) -> ModuleSource:
    """Find the module of *apps* that itself assigns ``package.module:name``. Raises :class:`BadClass`."""
    wanted = ClassName.parse(name)
    source = find_module(wanted.module, apps)
    if source is None:
        raise BadClass(_not_there(wanted, apps))
    if wanted.path.partition(".")[0] not in _names_in(source).assigned:
        raise BadClass(f"{source.file.name} assigns no {wanted.path!r}")
    return source


def find_module(module: str, apps: Sequence[Path]) -> ModuleSource | None:
    """Find the source of a module by its dotted name in the first of *apps* that has it.

    This imports nothing. None when no directory has the module. Raises :class:`BadClass` when a symbolic link
    leads outside the application.
    """
    parts = module.split(".")
    if len(parts) > PARTS_MAX or not all(map(_is_name, parts)):
        return None
    for app in apps:
        directory = app.resolve()
        beside = directory.joinpath(*parts)
        # Like the import system: a package comes before a module of the same name.
        for file in (beside / "__init__.py", beside.with_name(f"{beside.name}.py")):
            if not _is_there(file):
                continue
            real = file.resolve()
            if not real.is_relative_to(directory):
                raise BadClass(
                    f"{module} is not a module of the application: {file} leads out of {directory}"
                )
            return ModuleSource(module, real, directory, is_package=file.name == "__init__.py")
    return None


def shown(text: str) -> str:
    """Shorten and escape a name from a caller, for one line of an error message."""
    return ascii(text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}...")


def _parts(text: str, dotted: str) -> list[str]:
    parts = dotted.split(".")
    if len(parts) > PARTS_MAX:
        raise BadClass(f"{shown(text)} is not a class: more than {PARTS_MAX} names in a row")
    return parts


def _is_name(part: str) -> bool:
    """Whether *part* is a name in Python. Python normalizes names, so any other form names nothing."""
    return part.isidentifier() and not iskeyword(part) and unicodedata.normalize("NFKC", part) == part


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # a name too long for the file system, a loop of links, a closed directory
        return False


def _not_there(wanted: ClassName, apps: Sequence[Path]) -> str:
    said = ", ".join(map(str, apps)) or "no directory"
    return (
        f"{wanted} is not a class of the application: there is no module {wanted.module} in {said}; "
        "for a class of an installed package see `holdfast up --allow-class`"
    )


# --- reading a module's names


@dataclass(frozen=True, slots=True)
class _Names:
    classes: frozenset[str]
    """Paths of the classes defined by class statements."""
    imported: frozenset[str]
    assigned: frozenset[str]


def _names_in(source: ModuleSource) -> _Names:
    try:
        now = source.file.stat()
    except OSError as error:
        raise BadClass(f"{source.file} cannot be read: {error.strerror or error}") from None
    return _names_kept(source, (now.st_ino, now.st_size, now.st_mtime_ns))


@lru_cache(maxsize=MODULES_KEPT_MAX)
def _names_kept(source: ModuleSource, version: tuple[int, int, int]) -> _Names:
    """Read a file once for each version of it: a host may have ten thousand groups of one class."""
    try:
        with quiet_parser():
            tree = ast.parse(source.read(), filename=str(source.file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise BadClass(f"{source.module} cannot be read: {source.file.name}{line}: {said}") from None
    classes: set[str] = set()
    imported: set[str] = set()
    assigned: set[str] = set()
    _collect(tree.body, "", classes, imported, assigned)
    return _Names(frozenset(classes), frozenset(imported), frozenset(assigned))


def _collect(
    body: Sequence[ast.stmt], prefix: str, classes: set[str], imported: set[str], assigned: set[str]
) -> None:
    for statement in _statements(body):
        match statement:
            case ast.ClassDef(name=name):
                classes.add(prefix + name)
                _collect(statement.body, f"{prefix}{name}.", classes, imported, assigned)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                imported.update(prefix + (each.asname or each.name.partition(".")[0]) for each in names)
            case ast.Assign(targets=targets):
                assigned.update(prefix + each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                assigned.add(prefix + name)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module does: also in ``if``, ``try``, ``with``, loops; not functions."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inner = (ast.stmt, ast.excepthandler, ast.match_case)
        waiting.extend(reversed([each for each in ast.iter_child_nodes(node) if isinstance(each, inner)]))


@contextmanager
def quiet_parser() -> Iterator[None]:
    """Suppress warnings and garbage collection while a source is parsed.

    Warnings belong to the import. CPython 3.11 mistakes finalizers that run while it builds a syntax tree for
    an error of the parser.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if was_enabled:
            gc.enable()
