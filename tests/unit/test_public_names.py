"""The names of the package `holdfast` itself: what users import, loaded when it is used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import holdfast as hf

SOURCE = ast.parse(Path(hf.__file__).read_text(encoding="utf-8"))
TOLD = {
    alias.name: node.module
    for node in ast.walk(SOURCE)
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("holdfast.")
    for alias in node.names
}
"""What type checkers are told: where each name comes from."""


def test_type_checkers_are_told_of_every_name() -> None:
    assert sorted(hf.__all__) == sorted([*TOLD, "__version__"])
    assert dir(hf) == sorted(hf.__all__)


@pytest.mark.parametrize("name", TOLD)
def test_a_name_is_what_type_checkers_are_told(name: str) -> None:
    assert getattr(hf, name) is getattr(import_module(TOLD[name]), name)


def test_a_name_that_does_not_exist_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="'holdfast' has no attribute 'conect'"):
        hf.conect  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'conect'"):
        exec("from holdfast import conect")


def test_the_package_alone_loads_nothing() -> None:
    """Everything is there all the same, also for those who import all."""
    program = (
        "import sys, holdfast\n"
        "print([each for each in sys.modules if each.startswith('holdfast.')])\n"
        "from holdfast import *\n"
        "print(connect.__module__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stdout.splitlines() == ["[]", "holdfast.client.domain"]
