"""The code of a class (E7): the version it declares, and a digest of its module and of what that imports.

What counts is what the application's directories hold, since that is what its author edits: Python and
installed packages are shown to people and not compared. A class of an installed package counts with its own
module; Holdfast's own are known by the versions they declare.
"""

import hashlib
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.model.code import Code
from holdfast.node.app_modules import ModuleText
from holdfast.node.class_source import SOURCE_BYTES_MAX, BadClass
from holdfast.node.source_digest import DIGEST_BYTES, digest_of, imports_in, parsed

VERSION: Final = "version"
"""The attribute by which a class says what its author calls it: a ``str``."""
VERSION_CHARACTERS_MAX: Final = 100
MODULES_MAX: Final = 1_000
"""Of one class: its module, what it imports from the application, what those import, and so on."""
BYTES_MAX: Final = 16 << 20
"""Of all their sources."""
_OWN: Final = "holdfast"

Text = Callable[[str], ModuleText | None]
"""The source of a module of the application (:meth:`.app_modules.AppModules.text`)."""


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
            if len(found) > MODULES_MAX or size > BYTES_MAX:
                said = f"more than {MODULES_MAX:,} modules or {BYTES_MAX >> 20} MiB of source"
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
