"""The lint of simulated modules: each kind of leak is caught in a sample, and harmless code passes."""

from pathlib import Path
from textwrap import dedent

import pytest

from holdfast.sim.lint.imports import is_simulated, leaks_below, leaks_in

LEAKS = {
    "clock": ("import time\n", "import of time", "Clock"),
    "clock by name": ("from time import monotonic_ns\n", "import of time", "Clock"),
    "wall clock": ("from datetime import datetime\nx = datetime.now()\n", "datetime.now", "Clock"),
    "wall clock, qualified": (
        "import datetime\nx = datetime.datetime.utcnow()\n",
        "datetime.utcnow",
        "Clock",
    ),
    "calendar": ("from datetime import date\nx = date.today()\n", "date.today", "Clock"),
    "dice": ("import random\nx = random.random()\n", "random.random", "Random"),
    "dice by name": ("from random import shuffle\n", "random.shuffle", "Random"),
    "dice of the machine": ("import random\nx = random.SystemRandom(1)\n", "random.SystemRandom", "Random"),
    "unseeded dice": ("import random\nx = random.Random()\n", "Random() without a seed", "Random"),
    "unseeded dice by name": ("from random import Random\nx = Random()\n", "without a seed", "Random"),
    "uuid": ("import uuid\n", "import of uuid", "Random"),
    "secrets": ("from secrets import token_hex\n", "import of secrets", "Random"),
    "threads": ("import threading\n", "import of threading", "called back"),
    "executors": ("from concurrent.futures import ThreadPoolExecutor\n", "concurrent.futures", "called back"),
    "event loop": ("import asyncio\n", "import of asyncio", "called back"),
    "import within a function": ("def f():\n    import asyncio\n", "import of asyncio", "called back"),
    "sockets": ("import socket\n", "import of socket", "Network"),
    "files": ("def f():\n    return open('x')\n", "open()", "Disk"),
    "paths": ("from pathlib import Path\n", "import of pathlib", "Disk"),
    "operating system": ("import os.path\n", "import of os", "port"),
    "output": ("print('x')\n", "print()", "Trace"),
    "hash": ("def f(x):\n    return hash(x)\n", "hash()", "crc32"),
    "identity": ("def f(x):\n    return id(x)\n", "id()", "own"),
    "identity as a key": ("def f(x):\n    return sorted(x, key=id)\n", "id()", "own"),
}

SET_WALKS = {
    "literal": "for x in {1, 2}: pass",
    "call": "for x in set(y): pass",
    "name": "y = frozenset(z)\nfor x in y: pass",
    "parameter": "def f(y: set[int]):\n    return [x for x in y]",
    "optional parameter": "def f(y: frozenset[int] | None):\n    return tuple(y or ())",
    "attribute": "class C:\n    members: frozenset[str]\n    def f(self):\n        return list(self.members)",
    "attribute made in a method": """
        class C:
            def __init__(self):
                self.members = set()
            def f(self):
                for x in self.members:
                    pass
    """,
    "property": """
        class C:
            @property
            def members(self) -> set[str]:
                return self.x
            def f(self):
                return [*self.members]
    """,
    "result": "def f() -> set[int]:\n    return x\nfor y in f(): pass",
    "operator": "def f(a: set[int], b):\n    return {x: 1 for x in a | b}",
    "difference of keys": "for x in a.keys() - b.keys(): pass",
    "method": "def f(a: set[int]):\n    yield from a.union([1])",
    "value of a mapping": "def f(d: dict[str, set[int]]):\n    for x in d['a']: pass",
    "get of a mapping": "def f(d: dict[str, set[int]]):\n    for x in d.get('a', ()): pass",
    "values of a mapping": "def f(d: dict[str, set[int]]):\n    return [x for y in d.values() for x in y]",
    "items of a mapping": "def f(d: dict[str, set[int]]):\n    return [x for k, y in d.items() for x in y]",
    "element of a list": "def f(a: list[set[int]]):\n    return [x for y in a for x in y]",
    "item of a list": "def f(a: list[set[int]]):\n    return list(a[0])",
    "annotated name": "y: set[int] = f()\nfor x in y: pass",
    "pop": "def f(a: set[int]):\n    return a.pop()",
    "unpacking": "def f(a: set[int]):\n    x, y = a",
    "join": "def f(a: set[str]):\n    return ','.join(a)",
    "generator": "def f(a: set[str]):\n    return (x for x in a)",
    "ties of max": "def f(a: set[str]):\n    return max(a, key=len)",
    "ties of sorted": "def f(a: set[str]):\n    return sorted(a, key=len)",
    "conditional": "def f(a: set[str], b):\n    return list(a if b else [])",
    "walrus": "if y := {1, 2}:\n    list(y)",
}

HARMLESS = {
    "a type of dice": "import random\ndef f(rng: random.Random) -> int:\n    return rng.randrange(6)",
    "seeded dice": "from random import Random\nx = Random(7)",
    "a name of its own": "def f(id: int) -> int:\n    return id",
    "a hash method": "class C:\n    def __hash__(self) -> int:\n        return hash(self.x)",
    "a date that is given": "from datetime import datetime\nx = datetime.fromtimestamp(0)",
    "time from a port": "def f(clock, ports):\n    return clock.now() + ports.clock.now()",
    "mapping by sets": "def f(d: dict[frozenset[int], int]):\n    return [d.pop(x) for x in [y for y in d]]",
    "pop of a list": "def f(a: list[int]):\n    return a.pop(), a.copy(), [*a.copy()]",
    "membership": "def f(a: set[int]):\n    return 1 in a and len(a) > 2",
    "sorted": "def f(a: set[int]):\n    for x in sorted(a): pass",
    "sorted generator": "def f(a: set[int]):\n    return sorted(x + 1 for x in a)",
    "any order": "def f(a: set[int]):\n    return any(x > 1 for x in a), max(a), sum(a)",
    "set to set": "def f(a: set[int]):\n    return {x + 1 for x in a} | set(x for x in a) | frozenset(a)",
    "dict": "def f(a: dict[int, int]):\n    return [x for x in a], list(a.keys())",
    "excused": "def f(a: set[int]):\n    (only,) = a  # fence: exactly one member",
    "another scope": "def f(y: set[int]): pass\ndef g(y: list[int]):\n    return [x for x in y]",
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_leak_is_caught(kind: str) -> None:
    """The report names the line, what is touched, and what to use instead."""
    source, what, instead = LEAKS[kind]
    (leak,) = leaks_in(source, "core.py")
    assert what in leak.what
    assert instead in leak.instead
    assert str(leak).startswith(f"core.py:{len(source.splitlines())}: ")


@pytest.mark.parametrize("kind", SET_WALKS)
def test_a_walk_through_a_set_is_caught(kind: str) -> None:
    leaks = leaks_in(dedent(SET_WALKS[kind]), "core.py")
    assert [leak.what for leak in leaks] == ["the order of a set"]
    assert "sorted" in leaks[0].instead


@pytest.mark.parametrize("kind", HARMLESS)
def test_harmless_code_passes(kind: str) -> None:
    assert leaks_in(HARMLESS[kind], "core.py") == []


@pytest.mark.parametrize("library", ["tantivy", "h11", "numpy", "cryptography.x509", "ldap3"])
def test_a_library_of_others_is_caught(library: str) -> None:
    """It brings its own clocks, threads and files; a core takes a port instead."""
    (leak,) = leaks_in(f"import {library}\n", "sequence/member.py")
    assert (leak.line, library.partition(".")[0]) == (1, leak.what.rpartition(" ")[2])
    (leak,) = leaks_in(f"def f():\n    from {library} import x\n", "sequence/member.py")
    assert leak.line == 2


def test_what_cores_are_made_of_passes() -> None:
    assert leaks_in("import msgspec\nfrom apsw import VFS\nimport collections.abc\n", "a.py") == []
    assert leaks_in("from holdfast.model.ids import HostId\n", "a.py") == []


def test_an_excuse_needs_a_reason() -> None:
    assert leaks_in("x = hash(y)  # fence:\n", "core.py") != []


def test_modules_are_fenced_unless_listed() -> None:
    """A new module counts as a core until someone decides otherwise."""
    assert is_simulated("model/ids.py")
    assert is_simulated("storage/something_new.py")
    assert is_simulated("node/heartbeats.py")
    assert not is_simulated("storage/disk.py")
    assert not is_simulated("agent/agent.py")
    assert not is_simulated("cli/main.py")


def test_a_tree_is_read_module_by_module(tmp_path: Path) -> None:
    """Leaks in a tree are reported with their paths; listed modules are skipped."""
    for name in ("storage/log.py", "storage/disk.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\nimport os\n")
    assert [f"{leak.file}:{leak.line}" for leak in leaks_below(tmp_path)] == ["storage/log.py:2"]
