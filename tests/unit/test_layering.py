"""The house keeps its shape: who may import whom, and what cores never touch."""

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import holdfast
from holdfast.sim.lint.imports import CORES, is_simulated, leaks_below

PACKAGE = Path(holdfast.__file__).parent

GROUND = ("model", "clock", "machine", "net", "storage", "authority", "shipping")
"""What everything may stand on: values, time, and the drivers with the cores they carry."""

HIGHER_CORES = tuple(core for core in CORES if core not in GROUND)

PROCESSES = ("calling", "groups", "app_code", "admin", "node", "agent")
"""The processes of a domain, and what they are made of."""

DOORS = ("web", "ldap", "iiop", "fsift")
"""Ways into a host besides its own protocol; those but the first are still to come."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "model": (),
    "clock": ("model",),
    "machine": ("model", "clock"),
    "net": ("model", "machine"),
    "storage": ("model", "clock", "machine"),
    "authority": ("model", "clock", "machine", "net", "storage"),
    "shipping": ("model", "clock", "machine", "net", "storage"),
    # A core imports the cores above it, and what a driver package holds that touches no machine.
    **{core: (*GROUND, *HIGHER_CORES[:index]) for index, core in enumerate(HIGHER_CORES)},
    # Groups are called by clients and by each other: whoever calls stands on this.
    "calling": (*GROUND, "sequence", "execution", "styles"),
    "client": (*GROUND, *HIGHER_CORES, "calling"),
    # Cores throughout: what a host does with its groups, on ports.
    "groups": (*GROUND, *HIGHER_CORES, "calling"),
    "app_code": (*GROUND, *HIGHER_CORES, "calling", "groups"),
    "admin": (*GROUND, *HIGHER_CORES, "calling", "groups", "app_code"),
    "node": (*GROUND, *HIGHER_CORES, "calling", "groups", "app_code", "admin"),
    "agent": (*GROUND, *HIGHER_CORES, "calling", "groups", "app_code", "admin", "node", "client"),
    "sim": (*GROUND, *HIGHER_CORES, "client", *PROCESSES),
    # A directory is asked by the client that our commands have, beside load that is not ours.
    "bench": (*GROUND, *HIGHER_CORES, "client", *PROCESSES, "ldap"),
    "demo": (*GROUND, *HIGHER_CORES, "client", *PROCESSES),
    # A host's process is composed by the command that starts it: the host knows no door by name.
    **dict.fromkeys(DOORS, (*GROUND, *HIGHER_CORES, "client", *PROCESSES, "settings")),
    # Every process's settings, and the page about them; who starts a process hands it its values.
    "settings": (*GROUND, *HIGHER_CORES, "client", *PROCESSES),
    "cli": (*GROUND, *HIGHER_CORES, "client", *PROCESSES, *DOORS, "settings", "bench", "demo", "sim"),
    "__init__.py": (*GROUND, *HIGHER_CORES, "calling", "client"),
    "__main__.py": ("cli",),
}
"""What each may import, besides itself. A package that is not here has no place in the house yet.

So nobody but the entry imports a command, drivers import no face, and only commands know the simulator.
"""


@dataclass(frozen=True)
class Import:
    """One import of a module of ours by another; paths are below the package."""

    importer: str
    line: int
    imported: str

    @property
    def packages(self) -> tuple[str, str]:
        return self.importer.partition("/")[0], self.imported.partition("/")[0]

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def modules() -> list[str]:
    return [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))]


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """CPython 3.11 takes finalizers that run while it builds a syntax tree for a mistake of the parser."""
    gc.disable()
    yield
    gc.enable()


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"), module)


@cache
def imports() -> tuple[Import, ...]:
    """Every import of ours by ours, within functions too."""
    return tuple(dict.fromkeys(each for module in modules() for each in _imports_of(module)))


def _imports_of(module: str) -> Iterator[Import]:
    for node in ast.walk(parsed(module)):
        match node:
            case ast.Import(names=names):
                yield from (
                    Import(module, node.lineno, _module(each.name)) for each in names if _is_ours(each.name)
                )
            case ast.ImportFrom(module=str(source), level=0, names=names) if _is_ours(source):
                for each in names:
                    yield Import(module, node.lineno, _module(source, each.name))
            case ast.ImportFrom(level=level) if level > 0:
                pytest.fail(
                    f"{module}:{node.lineno}: write the import in full, so that it can be searched for"
                )


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "holdfast"


def _module(source: str, name: str = "") -> str:
    """The file that ``from source import name`` takes *name* from: the module, or the package's own."""
    below = source.removeprefix("holdfast").strip(".").replace(".", "/")
    for candidate in (f"{below}/{name}.py", f"{below}/{name}/__init__.py", f"{below}.py"):
        if (PACKAGE / candidate.lstrip("/")).is_file():
            return candidate.lstrip("/")
    return f"{below}/__init__.py".lstrip("/")


def refused(wrong: list[str], rule: str) -> None:
    if wrong:
        pytest.fail(f"{rule}\n  " + "\n  ".join(wrong), pytrace=False)


def test_every_package_has_its_place() -> None:
    """A new package is put into the table before it is used."""
    packages = dict.fromkeys(module.partition("/")[0] for module in modules() if "/" in module)
    refused([each for each in packages if each not in ALLOWED], "packages without a place in ALLOWED:")


def test_packages_import_only_those_below_them() -> None:
    """Each imports what ALLOWED says: cores the cores above them in fences.CORES, drivers no faces."""
    wrong = []
    for each in imports():
        importer, imported = each.packages
        allowed = (*ALLOWED.get(importer, ()), importer, "__init__.py")
        if imported not in allowed:
            wrong.append(f"{each}; {importer} may import {', '.join(allowed[:-2]) or 'nothing of ours'}")
    refused(wrong, "imports against the layering:")


def test_cores_import_only_cores() -> None:
    """A module that the simulator runs imports none that touches the machine, whatever package it is in."""
    # A package's __init__ re-exports the names of its drivers too, and the simulator's parts call each other.
    of_cores = [
        each
        for each in imports()
        if is_simulated(each.importer)
        and not each.importer.endswith("__init__.py")
        and each.packages != ("sim", "sim")
    ]
    wrong = [
        f"{each}, which touches the machine; take a port, or list {each.importer} in fences.MACHINE"
        for each in of_cores
        if not is_simulated(each.imported)
    ]
    wrong += [
        f"{each}, which brings its drivers along; name the module that is meant"
        for each in of_cores
        if each.imported.endswith("/__init__.py") and not is_core_throughout(each.packages[1])
    ]
    refused(wrong, "cores that import a driver:")


def is_core_throughout(package: str) -> bool:
    return all(is_simulated(module) for module in modules() if module.startswith(f"{package}/"))


def test_cores_touch_nothing_of_the_machine() -> None:
    """No clock, dice, threads, sockets, files or hash order in what the simulator runs."""
    refused([str(leak) for leak in leaks_below(PACKAGE)], "leaks (see holdfast.sim.lint.imports):")


def test_the_table_is_layers() -> None:
    """Whoever may import a package can in no way be imported by it."""
    TopologicalSorter(ALLOWED).prepare()


def has_rooms(folder: Path) -> bool:
    return any((PACKAGE / folder).glob("*/__init__.py"))


def test_every_package_says_what_it_owns() -> None:
    """Each folder is a package with content, whose docstring says what it owns."""
    wrong = []
    folders = {}
    for module in modules():
        folders.setdefault(Path(module).parent, []).append(module)
    for folder, own in folders.items():
        init = (folder / "__init__.py").as_posix()
        if init not in own:
            wrong.append(f"{folder}/ has modules but no __init__.py")
        elif not ast.get_docstring(parsed(init)):
            wrong.append(
                f"{init}:1 needs a docstring: what it owns, its invariants, what it leaves to others"
            )
        elif own == [init] and len(parsed(init).body) == 1 and not has_rooms(folder):
            wrong.append(f"{folder}/ holds nothing yet: remove it until it does")
    refused(wrong, "packages:")


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "misc"])
def test_modules_are_named_by_a_noun_of_the_domain(name: str) -> None:
    wrong = [module for module in modules() if Path(module).stem == name]
    refused(wrong, f"'{name}' says nothing; name the concept:")
