"""Small programs that show what a network does to packets; ``python -m faults.probe VERB ...``.

``receive ADDRESS``      print the number in each datagram that arrives
``send ADDRESS COUNT``   send the numbers 0, 1, ... to it, one every half millisecond
``echo ADDRESS``         send every datagram back
``rtt ADDRESS COUNT``    print the milliseconds that each of COUNT round trips to an echo took

Each prints ``ready`` first.
"""

import socket
import sys
import time
from collections.abc import Callable

PORT = 7777
PACE_S = 0.0005
RTT_TIMEOUT_S = 60.0


def receive(address: str) -> None:
    with _bound(address) as inlet:
        while True:
            print(inlet.recv(100).decode(), flush=True)


def send(address: str, count: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outlet:
        print("ready", flush=True)
        for number in range(int(count)):
            outlet.sendto(str(number).encode(), (address, PORT))
            time.sleep(PACE_S)


def echo(address: str) -> None:
    with _bound(address) as inlet:
        while True:
            inlet.sendto(*inlet.recvfrom(100))


def rtt(address: str, count: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outlet:
        outlet.settimeout(RTT_TIMEOUT_S)
        print("ready", flush=True)
        for number in range(int(count)):
            started = time.monotonic()
            outlet.sendto(str(number).encode(), (address, PORT))
            outlet.recv(100)
            print(1000 * (time.monotonic() - started), flush=True)


def _bound(address: str) -> socket.socket:
    inlet = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    inlet.bind((address, PORT))
    print("ready", flush=True)
    return inlet


if __name__ == "__main__":
    verbs: dict[str, Callable[..., None]] = {"receive": receive, "send": send, "echo": echo, "rtt": rtt}
    verbs[sys.argv[1]](*sys.argv[2:])
