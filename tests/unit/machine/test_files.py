"""A domain's files are private to this user, whatever the umask is and an earlier run left."""

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.agent.startup import describe
from holdfast.machine.files import create_file, make_private, narrow, narrow_own, open_private, write_durably
from holdfast.model.errors import InvalidRequest
from holdfast.net.certificates import create_domain
from holdfast.node.layout import Layout
from holdfast.storage.lock import DirectoryLock

NOBODY = 65534


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(directory: Path) -> list[str]:
    """The files that others could read, write or enter, with their modes."""
    found = [directory, *directory.rglob("*")]
    modes = {str(path.relative_to(directory)): stat.S_IMODE(path.lstat().st_mode) for path in found}
    return [f"{path} {mode:o}" for path, mode in modes.items() if mode & 0o077]


def test_what_is_made_is_closed(tmp_path: Path) -> None:
    make_private(tmp_path / "d")
    with open_private(tmp_path / "d" / "file", os.O_WRONLY | os.O_TRUNC) as file:
        file.write(b"x")
    DirectoryLock.take(tmp_path / "d").release()
    create_domain(tmp_path / "d" / "certs", "d", datetime.now(UTC))
    assert open_to_others(tmp_path / "d") == []


def test_a_file_that_was_left_open_is_closed_when_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before\n")
    with open_private(tmp_path / "file", os.O_WRONLY | os.O_APPEND) as file:
        file.write(b"after\n")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert (tmp_path / "file").read_text() == "before\nafter\n"


def test_the_directory_of_an_earlier_run_is_closed_at_the_next_start(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "d")
    describe(layout, hosts=2, etcd=())
    assert open_to_others(layout.directory) == []
    (layout.directory / "hosts" / "host1" / "store").mkdir()
    (layout.directory / "hosts" / "host1" / "store" / "log").write_text("secret")
    for path in [layout.directory, *layout.directory.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    describe(layout, hosts=2, etcd=())
    assert open_to_others(layout.directory) == []
    assert (layout.directory / "hosts" / "host1" / "store" / "log").read_text() == "secret"


def test_a_directory_that_holds_other_things_keeps_its_mode_and_they_theirs(tmp_path: Path) -> None:
    """``--dir .`` must not lock others out of somebody's project or of /tmp."""
    tmp_path.chmod(0o755)
    (tmp_path / "project.py").write_text("")
    describe(Layout(tmp_path), hosts=1, etcd=())
    left = {each.split()[0] for each in open_to_others(tmp_path)}
    assert left == {".", "project.py"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "outside").mkdir(mode=0o755)
    (tmp_path / "d" / "link").symlink_to(tmp_path / "outside")
    narrow(tmp_path / "d")
    assert stat.S_IMODE((tmp_path / "outside").stat().st_mode) == 0o755
    narrow_own(tmp_path / "nowhere", ())


def test_what_is_not_ours_to_close_is_refused_with_what_to_do() -> None:
    """The file belongs to root: nobody else can change its mode."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        with pytest.raises(InvalidRequest, match=r"/etc/passwd is open to others \(mode 644\).*chmod go="):
            narrow(Path("/etc/passwd"))
    finally:
        os.seteuid(before)


def test_a_file_is_replaced_whole_private_and_durably(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The contents are synced before the name changes, and the directory after it (D3)."""
    done: list[str] = []
    sync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        done.append("sync of the directory" if is_directory else "sync of the contents")
        sync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        done.append("name")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o644)
    write_durably(file, b"new")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o600)
    assert done == ["sync of the contents", "name", "sync of the directory"]
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_first_of_several_makes_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert create_file(file, b"first")
    assert not create_file(file, b"second")
    assert file.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
