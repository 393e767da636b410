"""Loading a group's class: there is one clear error for each way it can fail."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.app_code import loader
from holdfast.app_code.finder import BadClass
from holdfast.app_code.loader import check_makes, check_offered, definition_of, load_class, offer_classes
from holdfast.authority.groups import GroupRecord
from holdfast.execution.capture import NotCapturable
from holdfast.faults.notifier import Notifier
from holdfast.model.ids import GroupId, Nonce

SOURCE = """
import abc
import enum
import threading
import typing
from subprocess import Popen

class Counter:
    def __init__(self, start=0):
        self.count = start

    def add(self):
        self.count += 1

class Locked(Counter):
    def __init__(self):
        self.lock = threading.Lock()

number = 5

class Failure(Exception):
    def add(self): ...

class Kind(type):
    def add(self): ...

class Colour(enum.Enum):
    RED = 1
    def add(self): ...

class Offer(typing.Protocol):
    def add(self): ...

class Abstract(abc.ABC):
    @abc.abstractmethod
    def add(self): ...

class Silent:
    def _add(self): ...
    @classmethod
    def made(cls): ...

class Replaced:
    def add(self): ...

Replaced = Popen
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "counting.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("class Counter: ...\n1 / 0")
    (tmp_path / "leaving.py").write_text("class Counter: ...\nraise SystemExit(7)")
    (tmp_path / "json.py").write_text("class Counter:\n    def add(self): ...")
    (tmp_path / "sys.py").write_text("class Counter:\n    def add(self): ...")
    before = list(sys.path)
    import json  # imported before the application's module of that name

    assert json.__file__ != str(tmp_path / "json.py")
    offer_classes(tmp_path)
    yield tmp_path
    sys.path[:] = before
    sys.modules.pop("counting", None)


def record(class_name: str, arguments: str = "[]") -> GroupRecord:
    return GroupRecord(
        group=GroupId(1),
        class_name=class_name,
        style="active",
        members=(),
        nonce=Nonce("n"),
        name="counter",
        arguments=arguments,
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("counting", "write package.module:Class"),
        ("counting:", "write package.module:Class"),
        ("nowhere:Counter", "there is no module nowhere in"),
        ("leaving:Counter", "leaving cannot be imported: OwnCodeLeft: SystemExit: 7"),
        ("broken:Counter", "broken cannot be imported: ZeroDivisionError"),
        ("counting:Other", "defines no such class"),
        ("counting:number", "defines no such class"),
        ("counting:Popen", "imports it, and does not define it"),
        ("counting:Replaced", "puts subprocess:Popen in its place"),
        ("counting:Failure", "it is an exception"),
        ("counting:Kind", "it is a metaclass"),
        ("counting:Colour", "it is an enumeration"),
        ("counting:Offer", "it is a protocol"),
        ("counting:Abstract", "it is abstract: it does not implement add"),
        ("counting:Silent", "it has no public method to call"),
        ("json:Counter", "give the file another name"),
        ("sys:Counter", "sys is a module of Python itself here already"),
    ],
)
def test_what_is_no_class_is_refused_with_the_reason(app: Path, name: str, said: str) -> None:
    with pytest.raises(BadClass, match=said):
        load_class(name)


def test_whether_a_class_is_offered_is_told_without_importing_it(app: Path) -> None:
    for name in ("counting:Counter", "broken:Counter", f"{Notifier.__module__}:{Notifier.__qualname__}"):
        check_offered(name)
    assert "broken" not in sys.modules
    for name in ("nope", "nowhere:Counter", "counting:Other", "counting:Popen"):
        with pytest.raises(BadClass):
            check_offered(name)


def test_an_object_is_made_with_the_arguments_of_its_record(app: Path) -> None:
    definition = definition_of(record("counting:Counter", "[7]"))
    check_makes(definition)
    assert vars(definition.fresh()) == {"count": 7}


def test_arguments_that_do_not_fit_are_refused(app: Path) -> None:
    with pytest.raises(BadClass, match="not a JSON array"):
        definition_of(record("counting:Counter", "{}"))
    with pytest.raises(BadClass, match="Counter cannot be made: TypeError"):
        check_makes(definition_of(record("counting:Counter", "[1, 2]")))


def test_an_object_that_cannot_be_captured_is_refused_by_its_attribute(app: Path) -> None:
    with pytest.raises(NotCapturable, match=r"Locked\.lock"):
        check_makes(definition_of(record("counting:Locked")))


def test_a_class_that_is_not_the_applications_is_refused_before_its_module_is_imported(app: Path) -> None:
    """Importing a module runs it: a caller that names a class could otherwise run anything installed."""
    (app.parent / "elsewhere").mkdir()
    (app.parent / "elsewhere" / "unheard.py").write_text("class Counter:\n    def add(self): ...")
    sys.path.append(str(app.parent / "elsewhere"))
    with pytest.raises(BadClass, match="there is no module unheard in"):
        load_class("unheard:Counter")
    assert "unheard" not in sys.modules
    offer_classes(app, ["unheard:Counter"])
    assert load_class("unheard:Counter").__module__ == "unheard"
    with pytest.raises(BadClass, match="there is no module unheard in"):
        load_class("unheard:Other")
    del sys.modules["unheard"]


def test_an_allowed_class_is_judged_like_any_other(app: Path) -> None:
    offer_classes(app, ["subprocess:CalledProcessError", "subprocess:NoSuch", "collections:OrderedDict"])
    for name, said in (
        ("subprocess:CalledProcessError", "it is an exception"),
        ("subprocess:NoSuch", "subprocess has no class 'NoSuch'"),
        ("collections:OrderedDict", "it is built in"),
    ):
        with pytest.raises(BadClass, match=said):
            load_class(name)


def test_the_domains_own_classes_need_no_leave() -> None:
    assert load_class("holdfast.faults.notifier:Notifier").__name__ == "Notifier"


def test_a_class_that_has_moved_is_found_by_its_older_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group's record uses the class name of the release that created the group (E7)."""
    now = f"{Notifier.__module__}:Notifier"
    monkeypatch.setitem(loader.MOVED, "holdfast.reports.notifier:Notifier", now)
    assert load_class("holdfast.reports.notifier:Notifier") is load_class(now)
