"""A real SQLite authority in one process, on which tests run recipes step by step and lose answers."""

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TypeVar

from holdfast.authority import keys
from holdfast.authority.contract import (
    Applied,
    Change,
    Get,
    Got,
    LeaseGrant,
    LeaseGranted,
    LeaseRevoke,
    Request,
    Result,
    Txn,
    Unknown,
)
from holdfast.authority.groups import GroupRecord, Placement, create_group, reserve_group, store_in_stay
from holdfast.authority.recipe import Recipe, Recipes, Seen
from holdfast.authority.sessions import Session, open_session
from holdfast.authority.sqlite import SqliteStore
from holdfast.authority.views import ViewMember
from holdfast.model.ids import GroupId, HostId, Incarnation, LeaseId, Nonce, Opening, StoreId
from holdfast.model.ports import TimerId

Answer = TypeVar("Answer")
Treatment = Callable[[Request], Result]

LEASE_S = 10


def member(host: HostId, number: int = 0) -> ViewMember:
    """The first process of *host*, in the stay of that *number*."""
    store = store_in_stay(StoreId(f"store-{host}"), number)
    return ViewMember(host=host, store=store, incarnation=Incarnation(1), opening=Opening(1))


class Bench:
    """Runs recipes against one store; *treat* may stand between a recipe and the store."""

    def __init__(self, directory: Path) -> None:
        self.now_ns = 0
        self._store = SqliteStore(str(directory / "authority.sqlite"), now_ns=0, new_id="bench")
        self._nonces = 0
        self.delayed: list[Request] = []

    def ask(self, request: Request) -> Result:
        return self._store.apply([request], self.now_ns)[0]

    def run(self, recipe: Recipe[Answer], treat: Treatment | None = None) -> Answer:
        """The recipe's answer, with every request treated by *treat* (asked, as it stands)."""
        treat = treat or self.ask
        try:
            request = next(recipe)
            while True:
                request = recipe.send(treat(request))
        except StopIteration as done:
            answer: Answer = done.value
            return answer

    # --- ways to treat a request

    def lose_answer(self, request: Request) -> Result:
        """A transaction is applied, but its sender never hears so."""
        result = self.ask(request)
        return Unknown("the answer was lost") if isinstance(result, Applied) else result

    def delay(self, request: Request) -> Result:
        """A transaction is kept back; its sender times out. :meth:`release` applies it."""
        if not isinstance(request, Txn):
            return self.ask(request)
        self.delayed.append(request)
        return Unknown("the request was delayed")

    def release(self) -> list[Result]:
        """What becomes of the delayed transactions when they arrive at last."""
        arrived, self.delayed = self.delayed, []
        return [self.ask(request) for request in arrived]

    def race(self, rival: Callable[[], object]) -> Treatment:
        """Let *rival* happen once, between the recipe's reads and its first transaction."""
        pending = [rival]

        def treat(request: Request) -> Result:
            if isinstance(request, Txn) and pending:
                pending.pop()()
            return self.ask(request)

        return treat

    def silence(self, request: Request) -> Result:
        return Unknown("nobody answers")

    # --- things most tests need

    def nonce(self) -> Nonce:
        self._nonces += 1
        return Nonce(f"nonce-{self._nonces}")

    def lease(self) -> LeaseId:
        granted = self.ask(LeaseGrant(LEASE_S))
        assert isinstance(granted, LeaseGranted)
        return granted.lease

    def session(self, host: str) -> Session:
        """A new session of *host* under a lease of its own."""
        opened = self.run(
            open_session(HostId(host), lease=self.lease(), address=f"{host}:1", nonce=self.nonce())
        )
        assert isinstance(opened, Seen)
        return opened.value

    def group_on(
        self, hosts: Sequence[HostId], *, listed: Sequence[HostId] | None = None, min_in_sync: int = 1
    ) -> GroupId:
        """A group that is placed on *hosts*; its first view lists those in *listed* (all of them), the first
        of which is primary."""
        number = self.run(reserve_group(nonce=self.nonce()))
        assert isinstance(number, int)
        record = GroupRecord(
            group=GroupId(number),
            class_name="bank:Ledger",
            style="warm_passive",
            members=tuple(Placement(host=host, store=StoreId("")) for host in hosts),
            nonce=self.nonce(),
            min_in_sync=min_in_sync,
        )
        members = tuple(map(member, hosts if listed is None else listed))
        assert isinstance(self.run(create_group(record, members[0].host, members)), Seen)
        return record.group

    def end(self, session: Session) -> None:
        """The session's lease ends."""
        found = self.ask(Get(keys.session(session.host)))
        assert isinstance(found, Got)
        assert found.item is not None
        self.ask(LeaseRevoke(found.item.lease))

    def expire(self) -> None:
        """End every lease whose time is over by now."""
        self._store.expire(self.now_ns)

    def change(self, *changes: Change) -> None:
        self.ask(Txn((), changes))

    def close(self) -> None:
        self._store.close()


class BenchHost:
    """What a host's machines ask of it: the authority on a bench, and timers that ring when told to."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.treat: Treatment = bench.ask
        self.recipes = Recipes(self)
        self._ringing: list[tuple[Callable[[Hashable], None], Hashable]] = []

    def request(self, request: Request, token: Hashable) -> None:
        self.recipes.on_authority(token, self.treat(request))

    def timers(self, on_timer: Callable[[Hashable], None]) -> "BenchTimers":
        return BenchTimers(on_timer, self._ringing)

    def fire(self) -> None:
        """Every timer that is set rings."""
        due, self._ringing[:] = self._ringing[:], []
        for on_timer, tag in due:
            on_timer(tag)

    @property
    def is_waiting(self) -> bool:
        """Whether any timer is set."""
        return bool(self._ringing)


class BenchTimers:
    """The timers of one machine (:class:`holdfast.model.ports.Timers`)."""

    def __init__(
        self,
        on_timer: Callable[[Hashable], None],
        ringing: list[tuple[Callable[[Hashable], None], Hashable]],
    ) -> None:
        self._on_timer = on_timer
        self._ringing = ringing

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._ringing.append((self._on_timer, tag))
        return TimerId(len(self._ringing))

    def cancel(self, timer: TimerId) -> None:
        del self._ringing[timer - 1]

    def close(self) -> None:
        self._ringing.clear()
