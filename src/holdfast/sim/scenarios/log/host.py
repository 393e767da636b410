"""One process of the scenario's host: it identifies its store, recovers its log, and begins its work."""

from typing import Final

from holdfast.model.errors import Corruption, HoldfastError
from holdfast.model.ids import GroupId, HostId, Nonce, Opening, Position, StoreId
from holdfast.model.ports import Token
from holdfast.sim.checkers.ledger import History, floored, operations
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MICROSECOND
from holdfast.sim.scenarios.log.work import CHUNK_BYTES, CONFIG, GROUPS, Account, Work, content
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.identity import Ours, Store, StoreIdentity, load, plan
from holdfast.storage.log import Log
from holdfast.storage.record_map import read_records
from holdfast.storage.recovery import Recovered, scan
from holdfast.storage.segments import salt_of

DIRECTORY: Final = "store"
AUTHORITY_NS: Final = 300 * MICROSECOND


class Host:
    def __init__(self, ports: NodePorts, account: Account) -> None:
        self.account = account
        self.work: Work | None = None
        self._ports = ports
        self._timers = ports.timers(self._on_timer)
        self._disk = ports.disk(DIRECTORY, self._on_synced)
        self._log: Log | None = None
        self._checkpoints: CheckpointStore | None = None
        self._identity = self._identify()

    @property
    def store(self) -> Store | None:
        """The store that the host works with; None while it does not work."""
        return self._identity.store if self.work is not None else None

    # --- identity (V5)

    def _identify(self) -> StoreIdentity:
        try:
            store = load(self._disk)
        except Corruption as error:
            self.account.loud(error)
            store = None
        recorded = self.account.openings.get(store.store) if store is not None else None
        verdict = plan(store, HostId(self._ports.name), recorded)
        self._identity = StoreIdentity(self._disk, store, self._stop)
        if isinstance(verdict, Ours):
            self._begin_opening()
        else:
            self.account.refused(verdict.reason)
            self._found()
        return self._identity

    def _found(self) -> None:
        store = self.account.new_store()
        self._ports.trace.note("found", store=store)
        self._identity.found(store, HostId(self._ports.name), self._begin_opening)

    def _begin_opening(self) -> None:
        nonce = Nonce(f"{self._ports.name}#{self._ports.incarnation}")
        self._identity.begin_opening(nonce, lambda: self._later("raise"))

    def _raise_number(self) -> None:
        """Act as the authority: raise the opening number from exactly the one that the store has."""
        store = self._store()
        assert store.intent is not None
        held = self.account.openings.get(store.store, (Opening(0), Nonce("")))
        raised = (Opening(store.opening + 1), store.intent)
        if held not in ((store.opening, store.nonce), raised):
            self.account.violation("V5", f"the authority holds {held}, the store {store}")
        self.account.openings[store.store] = raised
        self._later("finish")

    # --- recovery (D2, D3)

    def _recover(self) -> None:
        store = self._store()
        found = scan(self._disk, salt=salt_of(store.store), sector=CONFIG.sector_bytes)
        try:
            if found.is_damaged:
                raise found.damage[0].error()
            state = self._state(found)
        except Corruption as error:
            self.account.loud(error)
            self._found()
            return
        self.account.recovered(state, is_doubtful=found.is_doubtful)
        self._open(store, found, state)

    def _state(self, found: Recovered) -> dict[int, History]:
        """Return the log's content in the ledger's form."""
        state: dict[int, History] = {}
        for group, index in found.groups.items():
            history = state[group] = History(index.floor.position)
            if index.records:
                first, last = Position(index.floor.position + 1), Position(index.position)
                for record in read_records(self._disk, group, index, first, last):
                    history.bodies += operations(record.body, record.count)
        return state

    def _open(self, store: Store, found: Recovered, state: dict[int, History]) -> None:
        self._checkpoints = CheckpointStore(
            self._disk, salt=salt_of(store.store), on_failed=self._stop, chunk_bytes=CHUNK_BYTES
        )

        def opened() -> None:
            assert self._log is not None
            self.account.opened(state, self._log.mark)
            self._begin_work(store.store)

        def durable(number: int) -> None:
            if self.work is not None:
                self.work.on_durable(number)

        self._log = Log(
            self._disk,
            found,
            store=store.store,
            opening=store.opening,
            config=CONFIG,
            on_open=opened,
            on_durable=durable,
            on_stopped=self._stop,
            trace=self._ports.trace,
        )
        self._log.open()

    def _begin_work(self, store: StoreId) -> None:
        assert self._log is not None
        assert self._checkpoints is not None
        for group in GROUPS:
            if not self._check_checkpoint(store, group, self._log, self._checkpoints):
                self._give_up()
                return
        self.account.is_doubtful = self._log.is_doubtful
        self.work = Work(self._ports, self.account, store, self._log, self._checkpoints)

    def _check_checkpoint(
        self, store: StoreId, group: GroupId, log: Log, checkpoints: CheckpointStore
    ) -> bool:
        """Whether the group's state can be restored: from a complete checkpoint, and the log after it."""
        chosen = checkpoints.choose(group)
        for error in chosen.damaged:
            self.account.loud(error)
        floor, checkpoint = log.floor(group).position, chosen.checkpoint
        if checkpoint is None:
            if floor and not chosen.damaged:
                self.account.violation("D3", f"group {group}: the checkpoint at {floor} is gone")
            return not floor
        if checkpoint.point.position < floor:
            self.account.violation("D4", f"group {group}: the log begins at {floor}, {checkpoint}")
        try:
            held = b"".join(checkpoints.read(checkpoint))
        except Corruption as error:
            self.account.loud(error)
            return False
        if held != content(store, group, checkpoint.point.position):
            self.account.violation("D3", f"group {group}: {checkpoint} holds something else")
        if checkpoint.point.position > log.tail(group).position:
            # Only a tail that was corrupted and cut can end before a checkpoint.
            number = log.install(group, checkpoint.point)
            self.account.ledger.asked(number, group, floored(checkpoint.point.position))
        if chosen.damaged:
            self.account.world.sometimes("an older checkpoint served")
        return True

    # --- events and failures

    def _on_synced(self, token: Token, ok: bool) -> None:
        for part in (self._log, self._checkpoints, self._identity):
            if part is not None and part.on_synced(token, ok):
                return

    def _later(self, step: str) -> None:
        self._timers.set(AUTHORITY_NS, step)

    def _on_timer(self, step: str) -> None:
        if step == "raise":
            self._raise_number()
        else:
            self._identity.finish_opening(self._recover)

    def _give_up(self) -> None:
        """Give up a store that cannot be used any more; the next start creates another."""
        self._ports.node.disk.wipe()
        self._ports.stop("the store is damaged")

    def _stop(self, error: HoldfastError) -> None:
        self._ports.stop(f"{error.code}: {error}")

    def _store(self) -> Store:
        assert self._identity.store is not None
        return self._identity.store
