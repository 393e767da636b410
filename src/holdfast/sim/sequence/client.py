"""A client: appends unique tokens and reads, one operation at a time, asking again with the same number."""

from typing import Final

from holdfast.model.ids import ClientId, GroupId
from holdfast.sim.checkers import Append, Handle, Read
from holdfast.sim.node import NodePorts
from holdfast.sim.options import MILLISECOND, SECOND
from holdfast.sim.sequence.book import Book, key_of
from holdfast.sim.sequence.messages import Ask, Elsewhere, Reply

RETRY_NS: Final = 120 * MILLISECOND
GIVE_UP_NS: Final = 6 * SECOND
THINK_NS: Final = 40 * MILLISECOND
READS: Final = 0.4
WANDERS: Final = 0.25
"""How often a client tries another host than the one that answered last: an old primary, perhaps."""


class Client:
    """One client of one group."""

    def __init__(self, ports: NodePorts, book: Book, hosts: tuple[str, ...], group: GroupId) -> None:
        self._ports = ports
        self._book = book
        self._hosts = hosts
        self.group = group
        self._rng = ports.random.stream("client")
        self._guess = self._rng.choice(hosts)
        self._timers = ports.timers(self._on_timer)
        self._number = 0
        self._ask: Ask | None = None
        self._handle = Handle(0)
        self._began = 0
        self._tries = 0
        self._reads_at = ""
        self._reads_there_until = 0
        self._timers.set(THINK_NS, "next")

    def read_at(self, host: str, for_ns: int) -> None:
        """For so long, begin nothing but reads, and ask nobody but *host*; an append under way goes on."""
        self._reads_at, self._reads_there_until = host, self._ports.clock.now() + for_ns

    def _on_timer(self, tag: object) -> None:
        if tag == "next":
            self._begin()
        elif tag == self._tries and self._ask is not None:
            if self._ports.clock.now() - self._began > GIVE_UP_NS:
                self._book.history.unknown(self._handle)
                self._rest()
            else:
                bound_to = "" if self._ask.token else self._bound_to()
                self._guess = bound_to or self._rng.choice(self._hosts)
                self._send()

    def _begin(self) -> None:
        if self._book.is_ending:
            return
        self._number += 1
        client = ClientId(f"{self._ports.name}#{self._ports.incarnation}")
        bound_to = self._bound_to()
        is_read = bool(bound_to) or self._rng.random() < READS
        token = "" if is_read else f"{client}/{self._number}"
        self._ask = Ask(self.group, client, self._number, token)
        request = Read() if is_read else Append(token)
        self._handle = self._book.history.begin(client, key_of(self.group), request)
        self._began = self._ports.clock.now()
        if bound_to:
            self._guess = bound_to
        elif self._rng.random() < WANDERS:
            self._guess = self._rng.choice(self._hosts)
        self._send()

    def _send(self) -> None:
        assert self._ask is not None
        self._tries += 1
        self._ports.network.send(self._guess, self._ask)
        self._timers.set(RETRY_NS, self._tries)

    def on_message(self, peer: str, message: object) -> None:
        ask = self._ask
        if ask is None or not isinstance(message, Reply | Elsewhere) or message.number != ask.number:
            return
        if isinstance(message, Reply):
            self._book.history.ok(self._handle, message.place if ask.token else message.tokens)
            self._book.done(ask.group)
            self._rest()
        elif not ask.token and self._bound_to():
            pass  # it asks there again
        elif message.primary and message.primary != peer and self._guess == peer:
            self._guess = message.primary
            self._send()

    def _bound_to(self) -> str:
        """The only host it reads at; empty while it may go where it likes."""
        return self._reads_at if self._ports.clock.now() < self._reads_there_until else ""

    def _rest(self) -> None:
        self._ask = None
        self._timers.set(int(self._rng.expovariate(1.0) * THINK_NS) + 1, "next")
