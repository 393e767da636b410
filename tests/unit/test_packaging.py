"""What the package's metadata asks of others: ranges, which the versions that we lock satisfy."""

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from means import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ASKED = [Requirement(each) for each in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["host"])]


def locked(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(name): version for name, _, version in (each.partition("==") for each in lines)}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_range_is_asked_for_and_has_the_version_that_is_locked(asked: Requirement) -> None:
    """An exact version would keep Holdfast from being installed beside other programs."""
    assert {each.operator for each in asked.specifier} <= {">=", "<"}
    assert any(each.operator == ">=" for each in asked.specifier)
    assert asked.specifier.contains(locked("runtime")[canonicalize_name(asked.name)])


def test_what_is_locked_for_hosts_is_what_is_asked_for() -> None:
    assert set(locked("runtime")) == {canonicalize_name(each.name) for each in ASKED}


def test_a_client_needs_msgspec_alone() -> None:
    assert [Requirement(each).name for each in PROJECT["dependencies"]] == ["msgspec"]
