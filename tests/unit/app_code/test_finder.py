"""Finding a class without importing it: only what the application's directories define."""

import os
import sys
from pathlib import Path

import pytest

from holdfast.app_code.finder import BadClass, find_class, find_module, find_value
from holdfast.model.admin.groups import CLASS_CHARACTERS_MAX

SOURCE = """
import subprocess
import os.path as paths
from subprocess import Popen
from collections import *

raise SystemExit("this module was run")

class Ledger:
    class Page:
        from subprocess import Popen
        class Line: ...

try:
    class Tried: ...
except Exception:
    class Excepted: ...
else:
    class Otherwise: ...

if paths:
    class Conditional: ...

with open("x"):
    class Within: ...

match paths:
    case _:
        class Matched: ...

def made():
    class Local: ...
    return Local

Assigned = made()
OWN: Ledger = Ledger()
DECLARED: Ledger
Alias = subprocess.Popen
Ledger.OTHER = Ledger()
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    app = tmp_path / "app"
    for directory in ("pkg/inner", "bare/inner", "both"):
        (app / directory).mkdir(parents=True)
    for file in (
        "ledger.py",
        "pkg/inner/deep.py",
        "bare/inner/deep.py",
        "pkg/__init__.py",
        "pkg/inner/__init__.py",
    ):
        (app / file).write_text(SOURCE)
    (app / "both.py").write_text("class FromModule: ...")
    (app / "both" / "__init__.py").write_text("class FromPackage: ...")
    return app


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("ledger:Ledger", "ledger.py"),
        ("ledger:Ledger.Page", "ledger.py"),
        ("ledger:Ledger.Page.Line", "ledger.py"),
        ("ledger:Tried", "ledger.py"),
        ("ledger:Excepted", "ledger.py"),
        ("ledger:Otherwise", "ledger.py"),
        ("ledger:Conditional", "ledger.py"),
        ("ledger:Within", "ledger.py"),
        ("ledger:Matched", "ledger.py"),
        ("pkg:Ledger", "pkg/__init__.py"),
        ("pkg.inner:Ledger", "pkg/inner/__init__.py"),
        ("pkg.inner.deep:Ledger", "pkg/inner/deep.py"),
        ("bare.inner.deep:Ledger", "bare/inner/deep.py"),
        ("both:FromPackage", "both/__init__.py"),
    ],
)
def test_a_class_is_found_where_it_is_defined_and_nothing_runs(app: Path, name: str, file: str) -> None:
    loaded = set(sys.modules)
    found = find_class(name, [app])
    assert found.source.file == (app / file).resolve()
    assert (str(found.name), found.source.directory) == (name, app.resolve())
    assert set(sys.modules) == loaded


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ledger:Popen", "imports it, and does not define it"),
        ("ledger:subprocess", "imports it, and does not define it"),
        ("ledger:Ledger.Page.Popen", "imports it, and does not define it"),
        ("ledger:OrderedDict", "defines no such class"),
        ("ledger:subprocess.Popen", "defines no such class"),
        ("ledger:Alias", "defines no such class"),
        ("ledger:Assigned", "defines no such class"),
        ("ledger:made", "defines no such class"),
        ("ledger:made.Local", "defines no such class"),
        ("ledger:Local", "defines no such class"),
        ("ledger:Ledger.__class__", "defines no such class"),
        ("both:FromModule", "defines no such class"),
        ("subprocess:Popen", "there is no module subprocess in"),
        ("os:_Environ", "there is no module os in"),
        ("holdfast.cli.main:App", "there is no module holdfast.cli.main in"),
        ("pkg.ledger:Ledger", "there is no module pkg.ledger in"),
        ("ledger.pkg:Ledger", "there is no module ledger.pkg in"),
        ("bare:Ledger", "there is no module bare in"),
    ],
)
def test_what_the_application_does_not_define_is_not_found(app: Path, name: str, said: str) -> None:
    with pytest.raises(BadClass, match=said):
        find_class(name, [app])


@pytest.mark.parametrize(
    "name",
    [
        "",
        ":",
        "ledger",
        "ledger:",
        ":Ledger",
        "..ledger:Ledger",
        ".ledger:Ledger",
        "..:Ledger",
        "../app/ledger:Ledger",
        "/etc/passwd:Ledger",
        "app/ledger:Ledger",
        "pkg..inner:Ledger",
        "ledger.py:Ledger.",
        "ledger:Ledger:Page",
        "ledger:Ledger()",
        "ledger:Led ger",
        "ledger\n:Ledger",
        "ledger\x00:Ledger",
        "class:Ledger",
        "ledger:class",
        "pkg.import:Ledger",
        "ledger:made.<locals>.Local",
        "\uff4cedger:Ledger",
        "\x1b[31m:Ledger",
        "[/red]:Ledger",
        "__main__:Ledger",
        ".".join(["pkg"] * 17) + ":Ledger",
        "ledger:" + ".".join(["Ledger"] * 17),
        "ledger:" + "L" * CLASS_CHARACTERS_MAX,
        "l" * 1_000_000,
    ],
)
def test_what_is_no_name_of_a_class_is_refused_in_one_short_line(app: Path, name: str) -> None:
    with pytest.raises(BadClass) as refused:
        find_class(name, [app])
    said = str(refused.value)
    assert said.isprintable()
    assert len(said) < 400


def test_links_within_the_application_are_followed_and_others_refused(app: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text("class Secret: ...")
    (app / "inside.py").symlink_to(app / "ledger.py")
    (app / "linked.py").symlink_to(outside / "secret.py")
    (app / "folder").symlink_to(outside, target_is_directory=True)
    (app / "loop.py").symlink_to(app / "loop.py")
    assert find_class("inside:Ledger", [app]).source.file == (app / "ledger.py").resolve()
    for name in ("linked:Secret", "folder.secret:Secret"):
        with pytest.raises(BadClass, match="leads out of"):
            find_class(name, [app])
    with pytest.raises(BadClass, match="there is no module loop"):
        find_class("loop:Ledger", [app])


def test_an_application_may_itself_be_reached_by_a_link(app: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(app, target_is_directory=True)
    assert find_class("ledger:Ledger", [link]).source.file == (app / "ledger.py").resolve()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"class Ledger:\n  pass\nclass (", "line 3"),
        (b"class Ledger: ...\n\x00", "cannot be read"),
        (b"# coding: nonsense\nclass Ledger: ...", "cannot be read"),
        (b"\xff\xfe\xfa", "cannot be read"),
        (b"x = " + b"(" * 5_000, "cannot be read"),
        (b"#" * 2_000_001, "too long"),
    ],
)
def test_a_module_that_cannot_be_read_is_refused_with_the_reason(app: Path, source: bytes, said: str) -> None:
    (app / "bad.py").write_bytes(source)
    with pytest.raises(BadClass, match=said):
        find_class("bad:Ledger", [app])


def test_a_pipe_or_a_directory_in_place_of_a_module_holds_nobody_up(app: Path) -> None:
    os.mkfifo(app / "pipe.py")
    (app / "folder.py").mkdir()
    for name in ("pipe:Ledger", "folder:Ledger"):
        with pytest.raises(BadClass, match="is not a file"):
            find_class(name, [app])


def test_a_module_that_was_written_anew_is_read_anew(app: Path) -> None:
    (app / "fresh.py").write_text("class One: ...")
    find_class("fresh:One", [app])
    (app / "fresh.py").write_text("class Another: ...")
    find_class("fresh:Another", [app])
    with pytest.raises(BadClass, match="defines no such class"):
        find_class("fresh:One", [app])


def test_the_first_directory_that_has_the_module_counts(app: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "ledger.py").write_text("class Other: ...")
    (other / "more.py").write_text("class More: ...")
    apps = [app, other]
    assert find_class("more:More", apps).source.directory == other.resolve()
    assert find_class("ledger:Ledger", apps).source.directory == app.resolve()
    with pytest.raises(BadClass, match="defines no such class"):
        find_class("ledger:Other", apps)


def test_modules_are_found_by_name_alone(app: Path) -> None:
    found = find_module("pkg.inner", [app])
    assert found is not None
    assert (found.is_package, found.module) == (True, "pkg.inner")
    for name in ("nowhere", "pkg..inner", "..", "", "a/b"):
        assert find_module(name, [app]) is None


def test_an_object_of_the_application_is_one_that_its_module_assigns(app: Path) -> None:
    assert find_value("ledger:OWN", [app]).file == (app / "ledger.py").resolve()
    for name in ("ledger:DECLARED", "ledger:subprocess", "ledger:Popen", "ledger:nothing", "os:environ"):
        with pytest.raises(BadClass):
            find_value(name, [app])
