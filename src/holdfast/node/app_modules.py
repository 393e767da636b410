"""The application's modules as this process has them: the very source that was run, or will be.

A file may be edited while the process lives, and its edited source must not be taken for the one that runs
(E7). So modules of the application's directories are compiled from source that is read here, once, and
remembered; no bytecode that stands beside it is used, which may be of an earlier edit within the same second.
A module whose source was asked for before it was imported is imported from that source.
"""

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from holdfast.node.class_source import BadClass, ModuleSource, find_module

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
