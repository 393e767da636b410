"""A client that requests unique tokens, one at a time, and believes the answers it gets (IM B).

It sends each request once, because a repetition would be another request. If no answer comes, it assumes
nothing about the outcome.
"""

from typing import Final

from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.scenarios.control.host import BAD, Said, TokenRequest
from holdfast.sim.scenarios.control.observer import Book

THINK_NS: Final = 50 * MILLISECOND
GIVE_UP_NS: Final = 4 * SECOND
MISTAKES: Final = 0.03
WANDERS: Final = 0.1


class Client:
    def __init__(self, ports: NodePorts, book: Book, hosts: tuple[str, ...]) -> None:
        self._ports = ports
        self._book = book
        self._hosts = hosts
        self._rng = ports.random.stream("client")
        self._guess = self._rng.choice(hosts)
        self._timers = ports.timers(self._on_timer)
        self._number = 0
        self._token = ""
        self._timers.set(THINK_NS, "next")

    def _on_timer(self, tag: object) -> None:
        if tag == "next":
            self._begin()
        elif tag == self._number and self._token:
            self._rest()

    def _begin(self) -> None:
        if self._book.is_ending:
            return
        self._number += 1
        self._token = f"{self._ports.name}#{self._ports.incarnation}/{self._number}"
        if self._rng.random() < MISTAKES:
            self._token = f"{BAD}{self._token}"
        if self._rng.random() < WANDERS:
            self._guess = self._rng.choice(self._hosts)
        self._ports.network.send(self._guess, TokenRequest(self._token))
        self._timers.set(GIVE_UP_NS, self._number)

    def on_message(self, peer: str, message: object) -> None:
        if not isinstance(message, Said) or message.token != self._token:
            return
        if message.what == "elsewhere":
            self._guess = message.coordinator or self._rng.choice(self._hosts)
        else:
            self._book.was_told(message.token, message.what, message.cas, message.coordinator)
        self._rest()

    def _rest(self) -> None:
        self._token = ""
        self._timers.set(int(self._rng.expovariate(1.0) * THINK_NS) + 1, "next")
