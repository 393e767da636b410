"""Loading a group's class: one clear error for each way in which it can fail."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.authority.groups import GroupRecord
from holdfast.model.ids import GroupId, Nonce
from holdfast.node.class_source import BadClass
from holdfast.node.classes import add_to_path, check_makes, definition_of, load_class
from holdfast.styles.capture import NotCapturable

SOURCE = """
import threading

class Counter:
    def __init__(self, start=0):
        self.count = start

class Locked:
    def __init__(self):
        self.lock = threading.Lock()

number = 5
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "counting.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "leaving.py").write_text("raise SystemExit(7)")
    before = list(sys.path)
    add_to_path(tmp_path)
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
        ("nowhere:Counter", "nowhere cannot be imported: ModuleNotFoundError"),
        ("leaving:Counter", "leaving cannot be imported: OwnCodeLeft: SystemExit: 7"),
        ("broken:Counter", "broken cannot be imported: ZeroDivisionError"),
        ("counting:Other", "counting has no class 'Other'"),
        ("counting:number", "counting has no class 'number'"),
    ],
)
def test_what_is_no_class_is_refused_with_the_reason(app: Path, name: str, said: str) -> None:
    with pytest.raises(BadClass, match=said):
        load_class(name)


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
