"""The lint of simulated modules: it reads their source and reports what they must not touch.

A core that reads the machine's clock, randomness, threads, files or hash order gives different runs for the
same seed. This lint is the first fence against that. The sealed mode (:mod:`holdfast.sim.engine.sealed`) and
the comparison of two processes with different hash seeds are the others. The lint sees one module at a time
and knows no values, so it proves nothing.

A module is simulated unless it is listed in ``MACHINE``, so a new module is checked until someone decides
otherwise. Where the lint is wrong, a line may end in ``# fence: <why this is the same in every run>``.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from holdfast.sim.lint.set_order import INSTEAD as ORDER_INSTEAD
from holdfast.sim.lint.set_order import set_walks

CORES: Final = (
    "model",
    "clock",
    "sequence",
    "execution",
    "styles",
    "streams",
    "faults",
    "control",
    "directory",
    "search",
)
"""Packages that consist of cores only, in layer order: each may import those before it."""

MACHINE: Final = (
    "__main__.py",
    "admin/*",
    "agent/*",
    "app_code/*",
    "authority/driver.py",
    "authority/etcd/*.py",
    "authority/move/connecting.py",
    "authority/move/following.py",
    "authority/move/place_file.py",
    "authority/remote.py",
    "authority/server_process.py",
    "authority/store_opening.py",
    "bench/*",
    "calling/connections.py",
    "calling/group_client.py",
    "cli/*",
    "client/*",
    "demo/*",
    "directory/hosting/*",
    "directory/lmdb_store.py",
    "directory/holdings.py",
    "directory/loader.py",
    "directory/reading.py",
    "directory/master.py",
    "fsift/*",
    "iiop/*",
    "ldap/*",
    "machine/*",
    "net/certificates.py",
    "net/connection.py",
    "net/connection_settings.py",
    "net/flow.py",
    "net/layer.py",
    "net/link.py",
    "net/receiver.py",
    "net/requests.py",
    "net/secret_file.py",
    "net/tcp.py",
    "net/tls.py",
    "net/udp.py",
    "node/*",
    "settings/*",
    "shipping/checkout.py",
    "shipping/service.py",
    "shipping/shipping_thread.py",
    "sim/engine/sealed.py",
    "sim/lint/imports.py",
    "sim/runner/report.py",
    "sim/runner/runner.py",
    "storage/aside_file.py",
    "storage/disk.py",
    "storage/lock.py",
    "storage/volume.py",
    "web/*",
)
"""Modules that touch the machine: drivers, user interfaces, and the parts of the simulator that run it."""

SIMULATED: Final = (
    "admin/snapshot.py",
    "node/heartbeats.py",
    "node/messages.py",
    "agent/restart_policy.py",
    "directory/hosting/orders.py",
    "directory/hosting/sample.py",
    "ldap/ber.py",
    "ldap/binding.py",
    "ldap/changing.py",
    "ldap/comparing.py",
    "ldap/config_entries.py",
    "ldap/controls.py",
    "ldap/decoding.py",
    "ldap/encoding.py",
    "ldap/extended.py",
    "ldap/filter_ber.py",
    "ldap/limits.py",
    "ldap/messages.py",
    "ldap/naming_context.py",
    "ldap/quick_search.py",
    "ldap/rendering.py",
    "ldap/search_task.py",
    "ldap/server_entries.py",
    "ldap/service.py",
    "ldap/session.py",
    "ldap/sorting.py",
)
"""Modules that are cores although ``MACHINE`` matches them."""

_TIME, _DICE, _DISK, _NET = "the Clock port", "the Random port", "the Disk port", "the Network port"
_ONE_THREAD: Final = "nothing: a core runs each event to its end and is called back"
_DRIVER: Final = "a port, bound to the machine by a driver"

FORBIDDEN_MODULES: Final = {
    "asyncio": _ONE_THREAD,
    "concurrent": _ONE_THREAD,
    "ctypes": _DRIVER,
    "fcntl": _DISK,
    "glob": _DISK,
    "http": _NET,
    "httpx": _NET,
    "io": _DISK,
    "lmdb": "the Store port",
    "logging": "the Trace port",
    "mmap": _DISK,
    "multiprocessing": _ONE_THREAD,
    "os": _DRIVER,
    "pathlib": _DISK,
    "queue": _ONE_THREAD,
    "sched": "the Timers port",
    "secrets": _DICE,
    "select": _NET,
    "selectors": _NET,
    "shutil": _DISK,
    "signal": _DRIVER,
    "socket": _NET,
    "ssl": _NET,
    "structlog": "the Trace port",
    "subprocess": _DRIVER,
    "tempfile": _DISK,
    "threading": _ONE_THREAD,
    "time": _TIME,
    "uuid": _DICE,
    "uvloop": _ONE_THREAD,
    "zoneinfo": _DISK,
}
LIBRARIES: Final = ("msgspec", "apsw")
"""The libraries that a core may import: values, and SQLite, to which the simulator gives its own disk. Every
other one brings clocks, threads, files or hash order along, whatever it is for."""
FORBIDDEN_CALLS: Final = {
    "breakpoint": "the Trace port",
    "hash": "zlib.crc32 or hashlib, which every process computes alike",
    "id": "a number or name of the thing's own",
    "input": _DRIVER,
    "open": _DISK,
    "print": "the Trace port",
    "__import__": "an import statement",
}
_STANDARD: Final = sys.stdlib_module_names
FORBIDDEN_TIMES: Final = ("now", "utcnow", "today")


@dataclass(frozen=True, slots=True)
class Leak:
    """One place where a simulated module touches something that differs between runs."""

    file: str
    line: int
    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}; use {self.instead}"


def is_simulated(module: str) -> bool:
    """Whether the module (its path below the package, such as ``storage/log.py``) is checked."""
    return any(fnmatch(module, each) for each in SIMULATED) or not any(
        fnmatch(module, each) for each in MACHINE
    )


def leaks_below(package: Path) -> list[Leak]:
    """Return every leak in the simulated modules of the package in that folder."""
    return [
        leak
        for path in sorted(package.rglob("*.py"))
        if is_simulated(module := path.relative_to(package).as_posix())
        for leak in leaks_in(path.read_text(encoding="utf-8"), module)
    ]


def leaks_in(source: str, file: str) -> list[Leak]:
    """Return the leaks of one module, by line."""
    tree = ast.parse(source, file)
    excused = {
        number for number, line in enumerate(source.splitlines(), start=1) if re.search(r"# fence: \S", line)
    }
    found = [
        *(Leak(file, line, what, instead) for line, what, instead in touches(tree)),
        *(Leak(file, line, "the order of a set", ORDER_INSTEAD) for line in set_walks(tree)),
        *(Leak(file, line, f"import of the library {name}", _DRIVER) for line, name in foreign_imports(tree)),
    ]
    return sorted(
        (leak for leak in found if leak.line not in excused), key=lambda leak: (leak.line, leak.what)
    )


Touch = tuple[int, str, str]
"""(line, what is touched, what to use instead)"""


def touches(tree: ast.Module) -> Iterator[Touch]:
    """Yield every place of a module that touches the machine, in no particular order."""
    own_names = _bound_names(tree)
    in_hash_methods = _inside_hash_methods(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for each in names:
                    yield from _import_touch(node.lineno, each.name)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from _import_touch(node.lineno, module)
                if module == "random":
                    yield from (
                        (node.lineno, f"random.{each.name}", _DICE) for each in names if each.name != "Random"
                    )
            case ast.Attribute(value=ast.Name(id="random"), attr=name) if name != "Random":
                if "random" not in own_names:
                    yield node.lineno, f"random.{name}", _DICE
            case ast.Call(func=ast.Name(id="Random") | ast.Attribute(attr="Random"), args=[], keywords=[]):
                yield node.lineno, "Random() without a seed", _DICE
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in FORBIDDEN_TIMES:
                if isinstance(value, ast.Name | ast.Attribute) and _last_name(value) in ("datetime", "date"):
                    yield node.lineno, f"{_last_name(value)}.{name}", _TIME
            case ast.Name(id=name, ctx=ast.Load()) if name in FORBIDDEN_CALLS and name not in own_names:
                # Reported without a call too: ``sorted(things, key=id)`` also leaks.
                if not (name == "hash" and node in in_hash_methods):
                    yield node.lineno, f"{name}()", FORBIDDEN_CALLS[name]


def foreign_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each import of a library that is neither Python's own nor ours nor one of ``LIBRARIES``."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                imported = [each.name for each in names]
            case ast.ImportFrom(module=str(module), level=0):
                imported = [module]
            case _:
                continue
        for module in imported:
            name = module.partition(".")[0]
            if name not in (*LIBRARIES, "holdfast", *FORBIDDEN_MODULES) and name not in _STANDARD:
                yield node.lineno, name


def _import_touch(line: int, module: str) -> Iterator[Touch]:
    instead = FORBIDDEN_MODULES.get(module.partition(".")[0])
    if instead is not None:
        yield line, f"import of {module}", instead


def _last_name(value: ast.Name | ast.Attribute) -> str:
    return value.id if isinstance(value, ast.Name) else value.attr


def _bound_names(tree: ast.Module) -> frozenset[str]:
    """Return the names that the module defines itself, such as a parameter called ``id``."""
    arguments = (node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))
    assigned = (
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return frozenset(arguments) | frozenset(assigned)


def _inside_hash_methods(tree: ast.Module) -> frozenset[ast.AST]:
    """Return the nodes inside ``__hash__`` methods, which may use ``hash``.

    It is harmless until a set is iterated.
    """
    methods = (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__hash__"
    )
    return frozenset(inner for method in methods for inner in ast.walk(method))
