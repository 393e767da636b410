"""A replica on the simulator's clock and disk, with a store in memory: for tests of replicas and the door."""

from collections.abc import Callable

from holdfast.clock import ClockPorts, Generator
from holdfast.clock.vector import Vector
from holdfast.directory.dn import Dn
from holdfast.directory.filters.text import parse_filter
from holdfast.directory.memory_store import MemoryStore, StoreImage
from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    Change,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
    Scope,
    SearchRequest,
)
from holdfast.directory.replica.indexes import write_difference
from holdfast.directory.replica.maps import INDEX, MAPS, NAMES, SHOWN
from holdfast.directory.replica.ready import ready
from holdfast.directory.replica.replica import Replica, ReplicaPorts
from holdfast.directory.replica.searching import base_of, found
from holdfast.directory.replica.shown import Shown, shown_now
from holdfast.directory.replica.update import Update
from holdfast.directory.replica.view import EntryView, visible_values
from holdfast.directory.schema import standard_schema
from holdfast.directory.store import Batch
from holdfast.model.csn import Csn
from holdfast.model.ids import SECOND, ReplicaId
from holdfast.model.ports import NoTrace, Token
from holdfast.sim import NodePorts, Options, World

SUFFIX = "dc=example,dc=com"
ADMIN = "cn=admin,dc=example,dc=com"


class Told:
    """Hears what replication would hear."""

    def __init__(self) -> None:
        self.committed: list[tuple[tuple[Update, ...], bool]] = []
        self.applied: list[Token] = []
        self.failed: list[str] = []

    def on_committed(self, updates: tuple[Update, ...], *, is_own: bool) -> None:  # type: ignore[override]
        self.committed.append((tuple(updates), is_own))

    def on_applied(self, token: Token) -> None:
        self.applied.append(token)

    def on_failed(self, why: str) -> None:
        self.failed.append(why)


class Master:
    """One master with a disk of its own."""

    def __init__(
        self,
        number: int = 1,
        world: World | None = None,
        generation: str = "g",
        purge_slice: int = 1000,
        suffix: str = SUFFIX,
    ) -> None:
        self.purge_slice = purge_slice
        self.suffix = suffix
        self.world = world or World(Options(scenario="", seed=0))
        self.image = StoreImage(MAPS)
        self.generation = generation
        self._number = ReplicaId(number)
        self._is_new = True
        self.node = self.world.add_node(f"m{number}", self._build, supervised=False)
        self.run(0.1)
        self._open()

    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.now + int(seconds * SECOND))

    def _build(self, ports: NodePorts) -> Generator:
        timers = ports.timers(lambda tag: generator.on_timer(tag))
        disk = ports.disk("clock", lambda token, ok: generator.on_synced(token, ok))
        generator = Generator(ClockPorts(ports.clock, timers, disk, ports.trace), self._number)
        generator.open(is_new=self._is_new)
        self._is_new = False
        self.random = ports.random
        return generator

    def _open(self) -> None:
        generator = self.node.core
        assert isinstance(generator, Generator)
        self.generator = generator
        self.store = MemoryStore(self.image, lambda token, ok: self.replica.on_committed(token, ok))
        ports = ReplicaPorts(self.store, generator, self.random, NoTrace())
        self.replica = Replica(ports, standard_schema(), self.suffix, purge_slice=self.purge_slice)
        self.told = Told()
        self.replica.listen(self.told)
        self.replica.open(generation=self.generation)
        self.store.commit()

    def restart(self, survivors: int = 0) -> None:
        """The power fails with *survivors* of the transactions on their way on the disk; it starts again."""
        self.replica.close()
        self.image.cut(survivors)
        self.node.power_cut()
        self.run(0.1)
        self.node.start()
        self.run(0.1)
        self._open()

    def do(self, request: Change, who: str = ADMIN) -> Csn:
        """Carry out an operation, and see it committed."""
        heard: list[Csn] = []
        csn = self.replica.execute(request, who, heard.append)
        self.store.commit()
        assert heard == [csn]
        return csn

    def purge(self, vector: Vector | None = None) -> None:
        """Purge up to *vector*, or all that is here, at one go."""
        self.replica.purge(vector or self.replica.vector, "purge")
        while self.replica.is_purging:
            self.replica.purge_on()
        self.store.commit()

    def populate(self) -> None:
        self.do(add(SUFFIX, "domain", dc="example"))
        self.do(add(f"ou=people,{SUFFIX}", "organizationalUnit", ou="people"))

    def search(
        self, filter_: str = "(objectClass=*)", base: str = SUFFIX, scope: Scope = Scope.SUBTREE
    ) -> list[EntryView]:
        snapshot = self.replica.snapshot()
        try:
            request = SearchRequest(base, scope, parse_filter(filter_))
            dn = Dn.parse(base)
            top = base_of(snapshot, dn, dn.key(snapshot.schema), request.dereference, everyone)
            seen = found(snapshot, top, scope, request.filter, everyone)
            return [each for each in seen if each is not None]
        finally:
            snapshot.close()

    def dns(
        self, filter_: str = "(objectClass=*)", base: str = SUFFIX, scope: Scope = Scope.SUBTREE
    ) -> list[str]:
        return sorted(each.dn for each in self.search(filter_, base, scope))

    def send_to(self, other: "Master") -> None:
        """Let another master have all that it lacks."""
        with self.replica.updates_since(other.replica.vector) as reader:
            other.replica.apply(self.node.name, list(reader), "sent")
        other.store.commit()


def everyone(view: EntryView) -> bool:
    return True


def add(dn: str, *classes: str, **attributes: str | list[str]) -> AddRequest:
    found = [Attribute("objectClass", tuple(each.encode() for each in classes))]
    for name, values in attributes.items():
        given = [values] if isinstance(values, str) else values
        found.append(Attribute(name, tuple(each.encode() for each in given)))
    return AddRequest(dn, tuple(found))


def person(uid: str, **attributes: str | list[str]) -> AddRequest:
    values = {"uid": uid, "cn": f"Person {uid}", "sn": uid, **attributes}
    return add(f"uid={uid},ou=people,{SUFFIX}", "inetOrgPerson", **values)


def modify(dn: str, *steps: tuple[str, str, str | list[str]]) -> ModifyRequest:
    """Steps as ``("add", "mail", "a@b")``; an empty list is the whole attribute."""
    changes = []
    for kind, description, values in steps:
        given = [values] if isinstance(values, str) else values
        changes.append(
            Modification(ModificationKind[kind.upper()], description, tuple(each.encode() for each in given))
        )
    return ModifyRequest(dn, tuple(changes))


def rename(dn: str, new_rdn: str, superior: str | None = None, *, keep_old: bool = False) -> ModifyDnRequest:
    return ModifyDnRequest(dn, new_rdn, not keep_old, superior)


def delete(dn: str) -> DeleteRequest:
    return DeleteRequest(dn)


def derived_rows(replica: Replica) -> dict[str, dict[bytes, bytes]]:
    """What the maps of shown entries, names and indexes must have, worked out from the state alone."""
    sight = replica.sight
    shown: dict[bytes, bytes] = {}
    names: dict[bytes, bytes] = {}
    index: dict[bytes, bytes] = {}
    batch = Batch()
    for entry in sight.tree.visible():
        now = shown_now(sight.tree, sight.schema, entry)
        assert isinstance(now, Shown)
        names[bytes(now.parent) + now.key] = bytes(entry)
        state = sight.state.entries.get(entry)
        values = visible_values(state, now.oddity)
        contents = {each: [value.content for value in found] for each, found in values.items()}
        size = 0 if state is None else state.bytes_most()
        shown[bytes(entry)] = repr(ready(sight.schema, now, contents, size)).encode()
        write_difference(sight.schema, entry, {}, values, batch)
    index.update({key: b"" for _, key, _ in batch.changes})
    return {SHOWN: shown, NAMES: names, INDEX: index}


def stored_rows(master: Master, decode: Callable[[bytes], Shown]) -> dict[str, dict[bytes, bytes]]:
    """What they have."""
    with master.store.read() as reader:
        return {
            SHOWN: {key: repr(decode(value)).encode() for key, value in reader.rows(SHOWN)},
            NAMES: dict(reader.rows(NAMES)),
            INDEX: dict(reader.rows(INDEX)),
        }
