"""Files of a manifest get their own names in a directory of their own, all at once."""

from pathlib import Path

import pytest
from shipped_files import manifest_of, pattern

from holdfast.model.errors import Corruption, DiskFailed, InvalidRequest
from holdfast.shipping.checkout import check_out
from holdfast.shipping.manifest import Contents
from holdfast.shipping.shelf import file_name

FILES = {
    "data.db": pattern(5000),
    "index/a/1": pattern(700, salt=1),
    "index/a/2": pattern(700, salt=1),
    "empty": b"",
}


@pytest.fixture
def shelved(tmp_path: Path) -> tuple[Contents, Path]:
    contents, shelf = manifest_of(FILES), tmp_path / "shelf"
    shelf.mkdir()
    for file in contents.files:
        (shelf / file_name(file)).write_bytes(FILES[file.name])
    return contents, shelf


def found(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("is_shared", [False, True])
def test_files_get_their_names(shelved: tuple[Contents, Path], tmp_path: Path, is_shared: bool) -> None:
    contents, shelf = shelved
    check_out(contents, shelf, tmp_path / "deep" / "set-1", is_shared=is_shared)
    assert found(tmp_path / "deep" / "set-1") == FILES
    links = {path.stat().st_nlink for path in (tmp_path / "deep" / "set-1").rglob("*") if path.is_file()}
    assert (links == {1}) is not is_shared


def test_copies_may_be_changed(shelved: tuple[Contents, Path], tmp_path: Path) -> None:
    contents, shelf = shelved
    check_out(contents, shelf, tmp_path / "own", is_shared=False)
    (tmp_path / "own" / "data.db").write_bytes(b"changed")
    assert (shelf / file_name(contents.files[0])).read_bytes() == FILES["data.db"]
    assert (tmp_path / "own" / "data.db").stat().st_mode & 0o077 == 0


def test_what_is_there_is_not_overwritten(shelved: tuple[Contents, Path], tmp_path: Path) -> None:
    contents, shelf = shelved
    (tmp_path / "own").mkdir()
    with pytest.raises(InvalidRequest, match="exists already"):
        check_out(contents, shelf, tmp_path / "own", is_shared=True)


def test_a_check_out_that_was_cut_short_begins_anew(shelved: tuple[Contents, Path], tmp_path: Path) -> None:
    contents, shelf = shelved
    (tmp_path / "own.new" / "index").mkdir(parents=True)
    (tmp_path / "own.new" / "index" / "stray").write_bytes(b"half")
    check_out(contents, shelf, tmp_path / "own", is_shared=False)
    assert found(tmp_path / "own") == FILES


def test_damage_is_noticed_on_the_way(shelved: tuple[Contents, Path], tmp_path: Path) -> None:
    contents, shelf = shelved
    (shelf / file_name(contents.files[0])).write_bytes(FILES["data.db"][:-1] + b"?")
    with pytest.raises(Corruption, match=r"data\.db"):
        check_out(contents, shelf, tmp_path / "own", is_shared=False)
    assert not (tmp_path / "own").exists()


def test_a_file_that_is_not_there_is_said(shelved: tuple[Contents, Path], tmp_path: Path) -> None:
    contents, shelf = shelved
    (shelf / file_name(contents.files[1])).unlink()
    with pytest.raises(DiskFailed, match="No such file"):
        check_out(contents, shelf, tmp_path / "own", is_shared=True)
    assert not (tmp_path / "own").exists()
