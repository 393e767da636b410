"""A network namespace with one TUN interface in it, made with system calls alone.

The namespace has no name and no entry in the file system: it ends with the last process in it and the last
descriptor on it, so there is nothing to remove.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator

_CLONE_NEWNET = 0x40000000

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
_IFF_UP = 0x1

_INTERFACE = b"tun0"
_NETMASK = "255.255.255.0"

_libc = ctypes.CDLL(None, use_errno=True)


class Machine:
    """A namespace with loopback and, at *address*, ``tun0``; its packets pass through ``fileno()``."""

    def __init__(self, address: str) -> None:
        """Make the namespace and move the calling process into it; making the next machine moves it on."""
        if _libc.unshare(_CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot make a network namespace: {os.strerror(number)}")
        self.address = address
        self.namespace_fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._settings = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.ioctl(self._device, _TUNSETIFF, struct.pack("16sH22x", _INTERFACE, _IFF_TUN | _IFF_NO_PI))
        self._set_address(_SIOCSIFADDR, address)
        self._set_address(_SIOCSIFNETMASK, _NETMASK)
        self._set_flags(b"lo", _IFF_UP)
        self.set_up(True)

    def fileno(self) -> int:
        return self._device

    def renumber(self, address: str) -> None:
        """Give the machine another address, and take the old one away."""
        self._set_address(_SIOCSIFADDR, address)
        self._set_address(_SIOCSIFNETMASK, _NETMASK)
        self.address = address

    def set_up(self, is_up: bool) -> None:
        """Set the interface up or down; while it is down, programs in here get "network is unreachable"."""
        self._set_flags(_INTERFACE, _IFF_UP if is_up else 0)

    def _set_address(self, request: int, address: str) -> None:
        value = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(self._settings, request, struct.pack("16s16s8x", _INTERFACE, value))

    def _set_flags(self, interface: bytes, flags: int) -> None:
        fcntl.ioctl(self._settings, _SIOCSIFFLAGS, struct.pack("16sH22x", interface, flags))


def enter_namespace(path: str) -> None:
    """Move the calling thread, and those it starts from now on, into the network namespace at *path*."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter {path}: {os.strerror(number)}")
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def entered(path: str) -> Iterator[None]:
    """Move the calling thread into the network namespace at *path*, and back afterwards."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_namespace(path)
        try:
            yield
        finally:
            enter_namespace(f"/proc/self/fd/{before}")
    finally:
        os.close(before)
