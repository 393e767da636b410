"""A signal reaches the process that holds a directory, or nobody."""

import asyncio
import fcntl
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent.status_client import signal_holder, status_of, stop_domain, stop_orphans
from holdfast.model.ids import HostId
from holdfast.node.layout import Description, Layout
from holdfast.storage.lock import LOCK_FILE, holder_of

LOCKER = """
import os, sys, time
from pathlib import Path
from holdfast.storage.lock import DirectoryLock, Holder
lock = DirectoryLock.take(Path(sys.argv[1]), Holder(pid=os.getpid(), what="test", incarnation=4))
print("ready", flush=True)
time.sleep(60)
"""
A, B = HostId("a"), HostId("b")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.prepare(description())
    return layout


def description() -> Description:
    return Description(domain="d", hosts=(A, B), agent_address="127.0.0.1:1", authority_address="127.0.0.1:2")


@pytest.fixture
def held(layout: Layout) -> "Iterator[subprocess.Popen[str]]":
    """A process that holds host a's directory."""
    command = [sys.executable, "-c", LOCKER, str(layout.host(A))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_the_holder_gets_the_signal(layout: Layout, held: "subprocess.Popen[str]") -> None:
    signal_holder(layout.host(B), signal.SIGTERM)
    assert held.poll() is None
    signal_holder(layout.host(A), signal.SIGTERM)
    assert held.wait(10) == -signal.SIGTERM


def test_a_holder_without_a_number_here_is_left_alone(layout: Layout) -> None:
    """The kernel gives -1 or 0 for a lock that no process here holds; as a pid it would mean every
    process.
    """
    open_file_lock = 37  # F_OFD_SETLK on Linux: such a lock belongs to a file, not to a process
    with (layout.host(A) / LOCK_FILE).open("w+") as file:
        fcntl.fcntl(file, open_file_lock, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        holder = holder_of(layout.host(A))
        assert holder is not None
        assert holder.pid <= 0
        signal_holder(layout.host(A), signal.SIGTERM)


def test_without_an_agent_the_status_tells_what_the_locks_tell(
    layout: Layout, held: "subprocess.Popen[str]"
) -> None:
    """Hosts outlive their agent: the status must not say that they are stopped."""
    found = asyncio.run(status_of(layout, description()))
    assert found.agent is None
    assert [(host.pid, host.incarnation, host.state) for host in found.hosts] == [
        (held.pid, 4, "without its agent"),
        (None, None, "stopped"),
    ]
    assert not any(host.alive for host in found.hosts)


def test_stopping_a_domain_ends_what_outlived_its_agent(
    layout: Layout, held: "subprocess.Popen[str]"
) -> None:
    assert asyncio.run(stop_domain(layout, description()))
    assert held.poll() is not None or held.wait(10) == -signal.SIGTERM
    assert not asyncio.run(stop_domain(layout, description()))


def test_orphans_are_left_to_the_agent_that_has_them_in_care(
    layout: Layout, held: "subprocess.Popen[str]"
) -> None:
    command = [sys.executable, "-c", LOCKER, str(layout.agent_directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        asyncio.run(stop_orphans(layout, description()))
        assert held.poll() is None
        agent.kill()
    asyncio.run(stop_orphans(layout, description()))
    assert held.wait(10) == -signal.SIGTERM
