"""The stored sources of classes are complete or absent, private, and not kept forever (E7)."""

import stat
from pathlib import Path

import pytest

from holdfast.app_code import copies as copies_module
from holdfast.app_code.copies import CodeCopies
from holdfast.app_code.digest import ClassCode, ModuleText, digest_of_all
from holdfast.model.code import Code


def code(text: str = "x = 1\n", version: str = "1") -> ClassCode:
    modules = (
        ModuleText("pkg", True, b""),
        ModuleText("pkg.inner", False, b"# why\ny = 1\n"),
        ModuleText("top", False, text.encode()),
    )
    return ClassCode(Code(version, digest_of_all(modules)), modules)


def test_what_is_kept_is_there_as_it_was(tmp_path: Path) -> None:
    found, copies = code(), CodeCopies(tmp_path)
    assert not copies.is_kept(found.code)
    assert copies.keep(found)
    assert not copies.keep(found)  # a second time
    modules = CodeCopies(tmp_path).modules_of(found.code)
    assert modules is not None
    assert (modules / "pkg" / "inner.py").read_bytes() == b"# why\ny = 1\n"
    assert (modules / "pkg" / "__init__.py").read_bytes() == b""
    (listed,) = copies.listed()
    assert (listed.version, listed.digest) == ("1", found.code.digest)


def test_nobody_else_reads_them(tmp_path: Path) -> None:
    CodeCopies(tmp_path).keep(code())
    for path in (tmp_path / "code").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_one_that_was_changed_or_cut_is_not_taken_and_is_written_again(tmp_path: Path) -> None:
    found = code()
    CodeCopies(tmp_path).keep(found)
    file = tmp_path / "code" / found.code.digest / "modules" / "top.py"
    file.write_text("x = 2\n")
    assert not CodeCopies(tmp_path).is_kept(found.code)
    file.unlink()
    copies = CodeCopies(tmp_path)
    assert not copies.is_kept(found.code)
    assert copies.keep(found)
    assert file.read_text() == "x = 1\n"


def test_what_a_process_left_half_written_counts_for_nothing(tmp_path: Path) -> None:
    found = code()
    left = tmp_path / "code" / f"{found.code.digest}.part" / "modules"
    left.mkdir(parents=True)
    (left / "top.py").write_text("x =")
    copies = CodeCopies(tmp_path)
    assert copies.listed() == []
    assert copies.keep(found)
    assert [each.name for each in (tmp_path / "code").iterdir()] == [found.code.digest]


def test_a_name_that_is_no_digest_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "modules").mkdir()
    assert CodeCopies(tmp_path).modules_of(Code("", "..")) is None
    assert CodeCopies(tmp_path).modules_of(Code("", "")) is None


def test_those_that_nothing_needs_go_but_for_the_last_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies_module, "SPARE_MAX", 2)
    copies, all_of_them = CodeCopies(tmp_path), [code(f"x = {number}\n") for number in range(6)]
    for each in all_of_them:
        copies.keep(each)
    copies.keep(all_of_them[1])  # again, so it is in use now
    digests = [each.code.digest for each in all_of_them]
    assert set(copies.prune({digests[0]})) == {digests[2], digests[3], digests[4]}
    assert {each.digest for each in copies.listed()} == {digests[0], digests[1], digests[5]}
    assert not copies.is_kept(all_of_them[2].code)
