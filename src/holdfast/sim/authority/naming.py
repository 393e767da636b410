"""Naming: hosts bind, resolve and unbind the same few names, also as the processes they once were (A7)."""

from holdfast.authority import names
from holdfast.authority.outcome import InDoubt, NoAnswer, Seen
from holdfast.authority.recipe import Recipe
from holdfast.authority.sessions import NoSession, Session
from holdfast.model.ids import Nonce
from holdfast.model.units import MILLISECOND
from holdfast.sim.authority.host_node import HostProcess

NAMES = ("north", "south")


class Naming:
    name = "naming"
    think_ns = 250 * MILLISECOND

    def __init__(self, host: HostProcess, former: list[Session]) -> None:
        self._host = host
        self._former = former
        """Sessions of this host, of earlier processes too: a late unbinding is theirs."""
        former.append(host.session)

    def round(self) -> Recipe[None]:
        rng = self._host.rng
        name = rng.choice(NAMES)
        choice = rng.random()
        if choice < 0.5:
            yield from self._bind(name)
        elif choice < 0.8:
            yield from self._unbind(name, rng.choice(self._former))
        else:
            answer = yield from names.resolve(name)
            if not isinstance(answer, NoAnswer):
                self._host.done(self.name)

    def _bind(self, name: str) -> Recipe[None]:
        nonce = self._host.nonce()
        while True:
            answer = yield from names.bind(
                name, f"at {self._host.name}", owner=self._host.session, nonce=nonce
            )
            if not isinstance(answer, InDoubt):
                break
            self._host.stage.world.sometimes("a binding in doubt")
        if isinstance(answer, NoSession):
            self._host.ports.stop("the session is gone")
        elif isinstance(answer, Seen | names.Taken):
            self._host.done(self.name)

    def _unbind(self, name: str, owner: Session) -> Recipe[None]:
        nonce = Nonce(f"{owner.host}/{owner.incarnation}/{self._host.nonce().rpartition('/')[2]}")
        answer = yield from names.unbind(name, owner=owner, nonce=nonce)
        while isinstance(answer, InDoubt):
            answer = yield from names.unbind(name, owner=owner, nonce=nonce)
        if not isinstance(answer, NoAnswer):
            self._host.done(self.name)
