"""The code of a class: what changes it, what does not, and that it describes what was imported (E7)."""

import importlib
import os
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.app_code import digest as digest_module
from holdfast.app_code.digest import AppModules, ClassCode, code_of, digest_of, imports_in, parsed, version_of
from holdfast.app_code.finder import BadClass
from holdfast.app_code.loader import load_code
from holdfast.faults.notifier import Notifier

COUNTER = """
from coded_rules import step
from coded.pkg.inner import other

class Counter:
    version = "1"

    def __init__(self):
        self.count = 0

    def add(self, by):
        self.count += by * step()
        return self.count
"""
RULES = "import os\ndef step():\n    return 1\n"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Path]:
    path, finders = list(sys.path), list(sys.meta_path)
    (tmp_path / "coded" / "pkg").mkdir(parents=True)
    (tmp_path / "coded" / "__init__.py").write_text("")
    (tmp_path / "coded" / "pkg" / "__init__.py").write_text("from . import inner\nEVEN = 2\n")
    (tmp_path / "coded" / "pkg" / "inner.py").write_text(
        "def other():\n    from ..late import x\n    return x\n"
    )
    (tmp_path / "coded" / "late.py").write_text("x = 1\n")
    (tmp_path / "coded" / "unused.py").write_text("y = 1\n")
    (tmp_path / "coded_counter.py").write_text(COUNTER)
    (tmp_path / "coded_rules.py").write_text(RULES)
    yield tmp_path
    forget()
    sys.path[:], sys.meta_path[:] = path, finders


def forget() -> None:
    for name in list(sys.modules):
        if name.startswith("coded"):
            del sys.modules[name]


class Process:
    """The modules of *app* as a process that starts now has them."""

    def __init__(self, app: Path) -> None:
        forget()
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, AppModules)]
        sys.path[:] = [str(app), *(each for each in sys.path if each != str(app))]
        importlib.invalidate_caches()
        self._modules = AppModules(lambda: [app])
        self._modules.install()

    def load(self, name: str = "coded_counter:Counter") -> tuple[Any, ClassCode]:
        module, _, cls = name.partition(":")
        found = getattr(importlib.import_module(module), cls)
        return found, code_of(found, self._modules.text)


def loaded(app: Path) -> ClassCode:
    return Process(app).load()[1]


def test_a_code_is_of_the_module_and_all_that_it_imports_from_the_application(app: Path) -> None:
    """Enclosing packages and imports inside functions are included; modules that nobody imports are not."""
    found = loaded(app)
    assert [each.module for each in found.modules] == [
        "coded",
        "coded.late",
        "coded.pkg",
        "coded.pkg.inner",
        "coded_counter",
        "coded_rules",
    ]
    assert found.code.version == "1"
    assert len(found.code.digest) == 32


@pytest.mark.parametrize(
    "file", ["coded_counter.py", "coded_rules.py", "coded/late.py", "coded/pkg/__init__.py"]
)
def test_what_any_of_them_does_is_part_of_the_code(app: Path, file: str) -> None:
    before = loaded(app).code.digest
    path = app / file
    path.write_text(path.read_text().replace("1\n", "3\n").replace("by *", "2 * by *").replace("2\n", "4\n"))
    assert loaded(app).code.digest != before


def test_comments_docstrings_layout_and_others_modules_are_not(app: Path) -> None:
    before = loaded(app).code
    (app / "coded_rules.py").write_text(
        '"""Why."""\nimport os # for later\n\n\ndef step():\n    "Doc."\n    return (1)\n'
    )
    (app / "coded" / "unused.py").write_text("y = 2\n")
    assert loaded(app).code == before


def test_an_edit_after_the_import_is_not_taken_for_what_runs(app: Path) -> None:
    """This also holds for a module that a method imports later: it is imported as it was."""
    process = Process(app)
    cls, found = process.load()
    (app / "coded_rules.py").write_text("def step():\n    return 2\n")
    (app / "coded" / "late.py").write_text("x = 7\n")
    assert process.load()[1] == found
    assert cls().add(1) == 1
    assert sys.modules["coded.pkg.inner"].other() == 1  # this call imports coded.late
    assert loaded(app).code.digest != found.code.digest


def test_another_class_that_shares_a_module_has_the_one_that_runs(app: Path) -> None:
    process = Process(app)
    rules = next(each for each in process.load()[1].modules if each.module == "coded_rules")
    (app / "coded_rules.py").write_text("def step():\n    return 2\n")
    (app / "coded_other.py").write_text(
        "from coded_rules import step\nclass Other:\n    def go(self): return step()\n"
    )
    cls, found = process.load("coded_other:Other")
    assert cls().go() == 1
    assert rules in found.modules


def test_bytecode_of_an_earlier_edit_is_not_run(app: Path) -> None:
    """An edit of equal length within the resolution of the file's time, one second."""
    assert Process(app).load()[0]().add(1) == 1
    py_compile.compile(str(app / "coded_rules.py"))  # as an interpreter does that may write bytecode
    stat = (app / "coded_rules.py").stat()
    (app / "coded_rules.py").write_text(RULES.replace("return 1", "return 2"))
    os.utime(app / "coded_rules.py", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert Process(app).load()[0]().add(1) == 2


def test_a_digest_is_of_a_tree_without_what_is_empty() -> None:
    def digest(source: str) -> bytes:
        return digest_of(parsed(source.encode(), "it"))

    assert digest("x = 1") == digest("x   =  (1) # one")
    assert digest("x = u'a'") == digest("x = 'a'")
    for one, other in [
        ("x = 1", "x = True"),
        ("x = 1", "x = 1.0"),
        ("f(a, *b)", "f(*a, b)"),
        ("x = 'a'", "x = b'a'"),
    ]:
        assert digest(one) != digest(other)
    assert digest("a = [b, c]") != digest("a = [[b], c]")
    assert digest("def f(a=1, *, b): pass") != digest("def f(a, *, b=1): pass")
    assert digest("x = -0.0") != digest("x = 0.0")
    assert digest(f"x = {'-' * 400}1")  # deep nesting
    assert digest(f"x = 0x{'f' * 5000}")  # more digits than Python shows


def test_imports_are_found_wherever_they_stand() -> None:
    source = """
import a.b, c as d
from e import f
from . import g
from ..h import i
if x:
    def k():
        import l
        importlib.import_module("m.n")
        import_module(".o", __package__)
"""
    tree = parsed(source.encode(), "it")
    found = imports_in(tree, "top.pkg.mod", is_package=False)
    assert sorted(found) == sorted(
        ["a.b", "c", "e", "e.f", "top.pkg", "top.pkg.g", "top.h", "top.h.i", "l", "m.n", "top.pkg.o"]
    )
    assert "top.pkg.mod.g" in imports_in(tree, "top.pkg.mod", is_package=True)
    assert imports_in(parsed(b"from .... import far", "it"), "top.pkg", is_package=False) == []


def test_a_version_is_text_that_the_class_declares() -> None:
    class Without:
        pass

    class Numbered:
        version = 3

    class Long:
        version = "x" * 101

    assert version_of(Without) == version_of(Numbered) == ""
    with pytest.raises(BadClass, match=r"Long\.version is no version"):
        version_of(Long)


def test_own_classes_are_known_by_their_versions_alone() -> None:
    """A release of Holdfast that does not change what they do can continue from their records."""

    class Later(Notifier):
        version = "99"

    Later.__module__, Later.__qualname__ = Notifier.__module__, Notifier.__qualname__
    found = load_code(f"{Notifier.__module__}:Notifier")[1]
    assert found.modules == ()
    assert found.code == code_of(Notifier, lambda _: None).code
    assert found.code.digest != code_of(Later, lambda _: None).code.digest


def test_sources_are_bounded(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_module, "CLASS_MODULES_MAX", 4)
    with pytest.raises(BadClass, match="imports more than 4 modules"):
        loaded(app)
