"""The user at the other end of a connection on loopback, as the kernel knows it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.machine import peer_user
from holdfast.machine.peer_user import user_of_peer

STRANGER = 65_533
CONNECT = """
import encodings.idna, os, socket, sys  # afterwards it may not be able to read the library
if os.geteuid() == 0:
    os.setgroups([]); os.setuid(int(sys.argv[3]))
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connection.send(b"x")
sys.stdin.readline()
connection.close()
print("closed", flush=True)
sys.stdin.readline()
"""


@contextmanager
def connected(host: str) -> Iterator[tuple[socket.socket, "subprocess.Popen[str]"]]:
    """A connection of another process, of another user if this one is root."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as listening:
        listening.settimeout(60)
        port = str(listening.getsockname()[1])
        command = [sys.executable, "-c", CONNECT, host, port, str(STRANGER)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.recv(1) == b"x"
                yield accepted, process
            process.communicate("\n\n", timeout=60)


def expected() -> int:
    return STRANGER if os.geteuid() == 0 else os.geteuid()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("is_table", [False, True])
def test_the_kernel_says_whose_socket_it_is(
    host: str, is_table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket that was closed has no owner any more: the kernel's 0 is not taken for root."""
    if is_table:
        monkeypatch.setattr(peer_user, "NETLINK_SOCK_DIAG", 31)  # as where a container forbids it
    with connected(host) as (accepted, process):
        ends = accepted.getpeername()[:2], accepted.getsockname()[:2]
        assert user_of_peer(*ends) == expected()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "closed\n"
        assert user_of_peer(*ends) is None


def test_who_is_not_on_this_machine_is_nobody() -> None:
    assert user_of_peer(("192.0.2.1", 4000), ("127.0.0.1", 80)) is None
    assert user_of_peer(("testclient", 1), ("127.0.0.1", 80)) is None
