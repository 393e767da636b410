"""References to members and to the group they are members of (FTC 27.1.3.1)."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.authority import keys
from holdfast.authority.groups import GroupRecord, Placement
from holdfast.authority.outcome import Seen
from holdfast.authority.sessions import Session
from holdfast.authority.views import View, ViewMember
from holdfast.housing.directory import GroupDirectory
from holdfast.housing.serving import Serving
from holdfast.model.calls import Locate, Located
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, Revision, StoreId
from holdfast.node.locating import reference_to

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
    directory = GroupDirectory(nothing, nothing, nothing, on_record=nothing, on_gone=nothing, on_view=nothing)
    directory.records[GROUP], directory.sessions = RECORD, SESSIONS
    directory.learn(Seen(keys.VIEWS, VIEW, Revision(1)))
    stamps = cast(Any, SimpleNamespace(time_ns=lambda: 1))
    serving = Serving({}, directory, nothing, stamps, nothing, nothing, nothing)
    serving.on_call(cast(Any, SimpleNamespace(send=told.append)), Locate(1, "", GROUP))
    (answer,) = told
    assert isinstance(answer, Located)
    return answer


@pytest.mark.covers("FTC-3")
def test_every_member_has_a_reference_of_its_own_and_the_group_one_besides() -> None:
    """The group's is what is published, to clients and to administrators: one number and one version, whoever
    the members are; under each member stands where that one alone is reached."""
    published = located().reference
    assert (published.group, published.version, published.primary) == (GROUP, 7, "b")
    assert {member.host: member.address for member in published.members} == OWN
    reference = reference_to(RECORD, VIEW, SESSIONS)
    assert (reference.group, reference.version) == (published.group, published.version)
    assert {member.host: member.address for member in reference.members} == OWN
    assert len(set(OWN.values())) == len(HOSTS)
