"""The reference page and the example file say what the structs say."""

from pathlib import Path

import pytest

from holdfast.model.errors import InvalidRequest
from holdfast.settings.contract import read
from holdfast.settings.file import read_content
from holdfast.settings.reference import example, page
from holdfast.settings.sections import Settings, settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    """`make settings` writes it."""
    written = PAGE.read_text(encoding="utf-8")
    assert written == page(written)


def test_a_page_without_its_mark_is_not_overwritten() -> None:
    with pytest.raises(InvalidRequest):
        page("# Settings\n")


def test_the_example_has_every_setting_at_its_default() -> None:
    """As it is, it sets nothing; with its comments taken off, it sets everything to what it was."""
    assert read_content(example().encode(), "example", {}, ()).sources == {}
    lines = [line.removeprefix("# ") if " = " in line else line for line in example().splitlines()]
    wanted = {each.key for each in settings().values()}
    kept = [line for line in lines if line.startswith("[") or line.partition(" = ")[0] in wanted]
    found = read_content("\n".join(kept).encode(), "example", {}, ()).insist()
    assert found.sources == dict.fromkeys(settings(), "file")
    assert found.settings == Settings() == read({}, lambda section, key: "", {}).settings
