"""A class is stored before a member of it runs, and announced to other hosts (E7)."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from holdfast.app_code import loader
from holdfast.app_code.copies import CodeCopies
from holdfast.app_code.finder import BadClass
from holdfast.app_code.known_code import KnownCode
from holdfast.app_code.loader import offer_classes
from holdfast.authority.groups import GroupRecord, Placement
from holdfast.model.code import Code
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import GroupId, HostId, Nonce, StoreId

SOURCE = """
class Counter:
    version = "3"
    count = 0
    def add(self): self.count += 1
"""
RECORD = GroupRecord(
    group=GroupId(1), class_name="hosted_counter:Counter", style="active", members=(), nonce=Nonce("n")
)


class Host:
    def __init__(self, directory: Path) -> None:
        self.told: list[dict[str, Code]] = []
        self.failures: list[HoldfastError] = []
        self.faults: list[tuple[GroupId, str, str]] = []
        self.copies = CodeCopies(directory)
        self.codes = KnownCode(
            HostId("a"), self.copies, announce=self._take, fail=self.failures.append, on_fault=self._fault
        )

    def _take(self, codes: Mapping[str, Code]) -> None:
        self.told.append(dict(codes))

    def _fault(self, group: GroupId, kind: str, what: str) -> None:
        self.faults.append((group, kind, what))


@pytest.fixture(autouse=True)
def app(tmp_path: Path) -> Iterator[None]:
    path, finders, apps = list(sys.path), list(sys.meta_path), list(loader.app_directories())
    directory = tmp_path / "app"
    directory.mkdir()
    (directory / "hosted_counter.py").write_text(SOURCE)
    offer_classes(directory)
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    sys.modules.pop("hosted_counter", None)
    for each in reversed(apps):
        offer_classes(each)


def test_a_class_is_kept_and_told_when_its_first_member_comes(tmp_path: Path) -> None:
    host = Host(tmp_path)
    definition = host.codes.define(RECORD)
    assert definition.code.version == "3"
    assert CodeCopies(tmp_path).is_kept(definition.code)
    host.codes.define(RECORD)
    assert host.told == [{RECORD.class_name: definition.code}]
    assert host.faults == host.failures == []


def test_a_class_whose_sources_cannot_be_kept_gets_no_member(tmp_path: Path) -> None:
    """This is like a log that cannot be written: the host ends (D1)."""
    host = Host(tmp_path)
    (tmp_path / "code").write_text("in the way")
    with pytest.raises(BadClass, match="could not be kept"):
        host.codes.define(RECORD)
    assert host.told == []
    assert len(host.failures) == 1


@pytest.mark.parametrize(("was", "is_told"), [("3", True), ("2", False), ("", False)])
def test_another_class_under_the_same_version_is_warned_of(tmp_path: Path, was: str, is_told: bool) -> None:
    host = Host(tmp_path)
    host.codes.define(msgspec.structs.replace(RECORD, code=Code(was, "0" * 32)))
    assert [kind for _, kind, _ in host.faults] == ["other_code"] * is_told


def test_a_group_that_others_serve_with_other_code_is_reported_once_if_it_stays_so(tmp_path: Path) -> None:
    host = Host(tmp_path)
    placed = (Placement(host=HostId("a"), store=StoreId("s")),)
    record = msgspec.structs.replace(RECORD, name="g", members=placed, code=Code("2", "0" * 32))
    host.codes.define(record)
    host.codes.look({record.group: record})
    assert host.faults == []  # an upgrade may be in progress
    host.codes.look({record.group: record})
    host.codes.look({record.group: record})
    ((_, kind, said),) = host.faults
    assert kind == "other_code"
    assert said.startswith("the code of g is 2 (00000000); a has 3 (")
    served = msgspec.structs.replace(record, code=host.codes.codes[record.class_name])
    for _ in range(2):
        host.codes.look({record.group: served})
    assert len(host.faults) == 1
    for _ in range(2):
        host.codes.look({record.group: record})
    assert len(host.faults) == 2
