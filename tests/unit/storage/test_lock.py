"""The lock that proves that a process is gone."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from holdfast.storage.lock import DirectoryLock, Holder, LockHeld, LockWatch, holder_of, seize

HOLDER_PROGRAM = """
import os, sys, time
from pathlib import Path
from holdfast.storage.lock import DirectoryLock, Holder
holder = Holder(pid=os.getpid(), what="host a", since="noon", incarnation=7)
lock = DirectoryLock.take(Path(sys.argv[1]), holder)
if "--fork" in sys.argv:
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
else:
    print("held", flush=True)
time.sleep(60)
"""


def start_holder(directory: Path, *options: str) -> tuple["subprocess.Popen[str]", str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER_PROGRAM, str(directory), *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def file_of(directory: Path) -> str:
    found = (directory / "lock").stat()
    return f"{found.st_dev}:{found.st_ino}"


def test_a_held_directory_names_its_holder_and_is_free_once_that_is_killed(tmp_path: Path) -> None:
    process, _ = start_holder(tmp_path)
    try:
        expected = Holder(pid=process.pid, what="host a", since="noon", incarnation=7)
        expected = msgspec.structs.replace(expected, file=file_of(tmp_path))
        assert holder_of(tmp_path) == expected
        with pytest.raises(LockHeld, match=f"host a .pid {process.pid}. since noon") as caught:
            DirectoryLock.take(tmp_path)
        assert caught.value.holder == expected
    finally:
        process.kill()
        process.communicate()
    assert holder_of(tmp_path) is None
    lock = DirectoryLock.take(tmp_path)
    assert lock.last_holder == expected
    lock.release()


def test_a_stopped_process_still_holds(tmp_path: Path) -> None:
    """SIGSTOP is not death: there is no proof while the process may continue."""
    process, _ = start_holder(tmp_path)
    try:
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(LockHeld):
            DirectoryLock.take(tmp_path)
    finally:
        process.kill()
        process.communicate()


def test_a_forked_helper_never_keeps_the_lock(tmp_path: Path) -> None:
    process, helper = start_holder(tmp_path, "--fork")
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    try:
        DirectoryLock.take(tmp_path).release()
    finally:
        os.kill(int(helper), signal.SIGKILL)


def test_the_words_of_an_earlier_holder_are_not_taken_for_the_present_one(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"pid": 1, "what": "somebody else"}')
    process, _ = start_holder(tmp_path)
    try:
        holder = holder_of(tmp_path)
        assert holder is not None
        assert (holder.pid, holder.what) == (process.pid, "host a")
    finally:
        process.kill()
        process.communicate()


def test_a_directory_nobody_ever_held_is_free(tmp_path: Path) -> None:
    assert holder_of(tmp_path / "nowhere") is None
    lock = DirectoryLock.take(tmp_path / "made")
    assert lock.last_holder is None
    lock.release()


def test_a_copy_of_a_held_directory_proves_nothing(tmp_path: Path) -> None:
    """The copy can be locked, and its note names a process that lives: it was written in another file."""
    process, _ = start_holder(tmp_path / "store")
    try:
        (tmp_path / "store").rename(tmp_path / "moved")
        shutil.copytree(tmp_path / "moved", tmp_path / "store")
        lock = DirectoryLock.take(tmp_path / "store")
        assert lock.last_holder is None
        lock.release()
        with pytest.raises(LockHeld):
            DirectoryLock.take(tmp_path / "moved")
    finally:
        process.kill()
        process.communicate()
    moved = DirectoryLock.take(tmp_path / "moved")
    assert moved.last_holder is not None
    assert moved.last_holder.incarnation == 7
    moved.release()


def test_a_watch_waits_for_the_file_that_was_held_not_for_its_name(tmp_path: Path) -> None:
    process, _ = start_holder(tmp_path / "store")
    watch = seize(tmp_path / "store")
    try:
        assert isinstance(watch, LockWatch)
        (tmp_path / "store" / "lock").rename(tmp_path / "aside")
        (tmp_path / "store" / "lock").write_bytes((tmp_path / "aside").read_bytes())
        assert watch.take() is None
        holder = watch.holder()
        assert holder is not None
        assert holder.pid == process.pid
    finally:
        process.kill()
        process.communicate()
    lock = watch.take()
    assert lock is not None
    assert lock.last_holder is not None
    assert lock.last_holder.incarnation == 7
    lock.release()
