"""References to members and to the group they are members of (FTC 27.1.3.1)."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from holdfast.admin.snapshot import reference_to
from holdfast.authority import keys
from holdfast.authority.contract import Txn
from holdfast.authority.groups import GroupRecord, Placement, create_group
from holdfast.authority.recipe import Seen, put
from holdfast.authority.sessions import Session
from holdfast.authority.views import View, ViewMember, read_view
from holdfast.groups.call_router import CallRouter
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.calls import Calls, Locate, Located, Redirected, RefusalCode
from holdfast.model.calls import Seen as SeenState
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, Revision, StoreId
from recipe_bench import Bench

GROUP = GroupId(5)
HOSTS = tuple(HostId(name) for name in ("a", "b", "c"))
RECORD = GroupRecord(
    group=GROUP,
    class_name="bank:Ledger",
    style="warm_passive",
    members=tuple(Placement(host=host, store=StoreId("")) for host in HOSTS),
    nonce=Nonce("n"),
    name="ledger",
)
VIEW = View(
    group=GROUP,
    epoch=Epoch(7),
    primary=HOSTS[1],
    members=tuple(
        ViewMember(host=host, store=StoreId(host), incarnation=Incarnation(1), opening=Opening(1))
        for host in HOSTS
    ),
    nonce=Nonce("v"),
)
SESSIONS = {
    host: Session(host=host, incarnation=Incarnation(1), address=f"{host}.example:7400", nonce=Nonce(host))
    for host in HOSTS
}
OWN = {host: session.address for host, session in SESSIONS.items()}


def located() -> Located:
    """What a host that knows the group tells a client who asks where it is."""
    nothing, told = cast(Any, lambda *_, **__: None), list[Any]()
    catalog = GroupCatalog(nothing, nothing, nothing, on_record=nothing, on_gone=nothing, on_view=nothing)
    catalog.records[GROUP], catalog.sessions = RECORD, SESSIONS
    catalog.learn(Seen(keys.VIEWS, VIEW, Revision(1)))
    stamps = cast(Any, SimpleNamespace(time_ns=lambda: 1))
    serving = CallRouter({}, catalog, nothing, stamps, nothing, nothing, nothing, nothing)
    serving.on_call(cast(Any, SimpleNamespace(send=told.append)), Locate(1, "", GROUP))
    (answer,) = told
    assert isinstance(answer, Located)
    return answer


class AskedHost:
    """A host that has heard of no group yet, and can ask the authority."""

    def __init__(self, bench: Bench) -> None:
        nothing = cast(Any, lambda *_, **__: None)
        self._told: list[Any] = []
        self.catalog = GroupCatalog(
            nothing, nothing, nothing, on_record=nothing, on_gone=nothing, on_view=nothing
        )
        self.catalog.sessions = SESSIONS
        recipes = SimpleNamespace(start=lambda recipe, then: then(bench.run(recipe)))
        stamps = SimpleNamespace(time_ns=lambda: 1)
        self._serving = CallRouter(
            {}, self.catalog, nothing, cast(Any, stamps), cast(Any, recipes), nothing, nothing, nothing
        )

    def answer(self, message: Any) -> Any:
        self._serving.on_call(cast(Any, SimpleNamespace(send=self._told.append)), message)
        return self._told.pop()


def seen(epoch: int) -> Seen[View]:
    """The group's view of that epoch, as it was told by the authority's watch."""
    return Seen(keys.view(GROUP), msgspec.structs.replace(VIEW, epoch=Epoch(epoch)), Revision(epoch))


@pytest.mark.covers("FTC-43", "FTC-44")
def test_a_host_asks_for_existence_as_it_does_for_the_newest_reference(tmp_path: Path) -> None:
    """Where a host has not heard of a group, or only of an old view, the authority has the word: that there
    is none; where it is; and, for a request that knows of an obsolete version, where it is now."""
    bench = Bench(tmp_path)
    host, calls = AskedHost(bench), msgspec.Raw(b"")
    assert host.answer(Locate(1, "", GROUP)).code is RefusalCode.NO_SUCH_GROUP
    assert host.answer(Calls(2, GROUP, Epoch(1), SeenState(), calls)).code is RefusalCode.NO_SUCH_GROUP

    bench.run(create_group(RECORD, VIEW.primary, VIEW.members))
    found = host.answer(Locate(3, "ledger"))
    assert (found.reference.group, found.reference.version) == (GROUP, 1)

    host.catalog.records[GROUP] = RECORD
    host.catalog.learn(seen(1))
    for epoch in (2, 3):
        next_view = msgspec.structs.replace(VIEW, epoch=Epoch(epoch))
        current = bench.run(read_view(GROUP))
        assert isinstance(current, Seen)
        bench.ask(Txn((), (put(current.key, next_view),)))
    forwarded = host.answer(Calls(4, GROUP, Epoch(2), SeenState(), calls))
    assert isinstance(forwarded, Redirected)
    assert (forwarded.frame, forwarded.reference.version, forwarded.reference.primary) == (4, 3, "b")


@pytest.mark.covers("FTC-3")
def test_every_member_has_a_reference_of_its_own_and_the_group_one_besides() -> None:
    """The group's is what is published, to clients and to administrators: one number and one version, whoever
    the members are; under each member stands where that one alone is reached."""
    published = located().reference
    assert (published.group, published.version, published.primary) == (GROUP, 7, "b")
    assert {member.host: member.address for member in published.members} == OWN
    reference = reference_to("d", RECORD, VIEW, SESSIONS)
    assert (reference.group, reference.version) == (published.group, published.version)
    assert {member.host: member.address for member in reference.members} == OWN
    assert len(set(OWN.values())) == len(HOSTS)
