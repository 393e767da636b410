"""Whatever README, guides and examples tell people to type is a command that exists, with those options."""

import re
import shlex

import pytest

from holdfast.cli.main import app
from means import ROOT

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
    "docs/start.md",
    "docs/operating.md",
    "docs/deploying.md",
    "docs/filters.md",
    "examples/ledger.py",
)
TYPED = re.compile(r"^\s*(?:\$ |@echo \"\s*|@\$\(BIN\)/)?(holdfast (?:[a-z]).*)$", re.MULTILINE)
INLINE = re.compile(r"`(holdfast [a-z][^`|]*)`")


def commands() -> list[str]:
    found: dict[str, None] = {}
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8").replace('\\"', '"')
        for line in (*TYPED.findall(text), *INLINE.findall(text)):
            found[line.removesuffix('"') if page == "Makefile" else line] = None
    return [each for each in found if not is_usage(each)]


def is_usage(command: str) -> bool:
    """What stands for something else: a synopsis, not a command to type."""
    return bool(re.search(r"\[|\.\.\.|\$\(", command))


@pytest.mark.parametrize("command", commands())
def test_it_can_be_typed(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    if len(words) == 1 and words[0] in ("chaos", "bench", "certs", "sim"):
        return  # a noun alone shows its help
    found, _, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert callable(found)


def test_something_is_documented() -> None:
    """Or the test above has nothing to try."""
    assert len(commands()) > 20
