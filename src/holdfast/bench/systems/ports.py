"""Ports for the processes of a peer."""

import socket


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listened at a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
