"""Where the files of each suffix are, whichever came first, and how they are found again."""

from pathlib import Path

import pytest
from directory_pair import SUFFIX, filled

from holdfast.cli.directory.commands import init
from holdfast.directory.hosting.places import place_of
from holdfast.directory.reading import directory_of, files_of, reading
from holdfast.model.errors import InvalidRequest

FIRST, SECOND = "dc=example,dc=com", "o=other"


def test_the_first_suffix_has_the_directory_and_keeps_it(tmp_path: Path) -> None:
    first = place_of(tmp_path, FIRST, was_here=False)
    second = place_of(tmp_path, SECOND, was_here=False)
    assert first == tmp_path
    assert second.parent.parent == tmp_path
    assert second.is_dir()
    # Asked in another order after a restart, both are where they were.
    assert place_of(tmp_path, SECOND, was_here=True) == second
    assert place_of(tmp_path, FIRST, was_here=True) == first


def test_files_from_before_there_were_several_belong_to_the_suffix_that_was_here(tmp_path: Path) -> None:
    (tmp_path / "identity").mkdir()
    assert place_of(tmp_path, SECOND, was_here=False) != tmp_path
    assert place_of(tmp_path, FIRST, was_here=True) == tmp_path


def test_two_suffixes_never_share_a_place(tmp_path: Path) -> None:
    names = ["o=a", "o=a/b", "o=a%2Fb", "o=" + "x" * 300, "o=" + "x" * 301, "o=é", "o=.."]
    assert len({place_of(tmp_path, each, was_here=False) for each in names}) == len(names)
    assert len([*tmp_path.glob("suffixes/*")]) == len(names) - 1


def test_a_suffix_is_found_by_a_name_below_it(tmp_path: Path) -> None:
    """And of several, one has to be named."""
    filled(tmp_path / "d")
    other = place_of(tmp_path / "d", SUFFIX, was_here=True)
    assert other == tmp_path / "d"
    assert directory_of(tmp_path / "d", None) == tmp_path / "d"
    second = place_of(tmp_path / "d", SECOND, was_here=False)
    from_elsewhere(second)
    assert files_of(tmp_path / "d") == {SUFFIX: tmp_path / "d", SECOND: second}
    with pytest.raises(InvalidRequest, match="several suffixes"):
        directory_of(tmp_path / "d", None)
    with reading(tmp_path / "d", f"cn=Nobody,{SECOND.upper()}") as snapshot:
        assert snapshot.suffix.text == SECOND
    with reading(tmp_path / "d", SUFFIX) as snapshot:
        assert snapshot.suffix.text == SUFFIX
    with pytest.raises(InvalidRequest, match="not o=third"):
        directory_of(tmp_path / "d", "o=third")


def from_elsewhere(place: Path) -> None:
    """Make files of the second suffix there."""
    password = place.parent / "password"
    password.write_text("secret\n")
    init(dir=place, suffix=[SECOND], admin_password_file=password)
