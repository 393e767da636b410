"""The directory's core needs no particular machine (CSN-109): a test that reads what it imports."""

import ast
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.sim.lint.imports import is_simulated

PACKAGE = Path(holdfast.__file__).parent
OF_SOME_PLATFORMS = frozenset(
    (
        *("_winapi", "crypt", "curses", "epoll", "fcntl", "grp", "mmap", "msvcrt", "nis", "ossaudiodev"),
        *("posix", "pty", "pwd", "readline", "resource", "select", "signal", "socket", "spwd", "syslog"),
        *("termios", "tty", "winreg", "winsound", "os", "subprocess", "ctypes"),
    )
)
"""Standard modules that some platforms lack, or whose contents depend on the platform."""
PURE = frozenset({"msgspec"})
"""What the core uses besides the standard library: it is built for every platform that CPython runs on."""


@pytest.mark.covers("CSN-109")
def test_the_core_of_the_directory_imports_nothing_of_one_platform() -> None:
    """Resolution, entries, schema, filters, text and the clock, with all of ours that they stand on."""
    waiting = [
        each.relative_to(PACKAGE).as_posix()
        for folder in ("directory", "clock")
        for each in (PACKAGE / folder).rglob("*.py")
        if is_simulated(each.relative_to(PACKAGE).as_posix())
    ]
    seen: set[str] = set()
    wrong: list[str] = []
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for name in _imported(module):
            top = name.partition(".")[0]
            if top == "holdfast":
                waiting += _ours(name)
            elif top in OF_SOME_PLATFORMS or (top not in sys.stdlib_module_names and top not in PURE):
                wrong.append(f"{module} imports {name}")
    assert not wrong
    assert len(seen) > 60


def _imported(module: str) -> list[str]:
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    return [each for each in found if each.startswith("holdfast") or "." not in each or each.count(".") < 2]


def _ours(name: str) -> list[str]:
    path = Path(*name.split(".")[1:])
    found = [path.with_suffix(".py"), path / "__init__.py"] if path.parts else []
    return [each.as_posix() for each in found if (PACKAGE / each).is_file()]
