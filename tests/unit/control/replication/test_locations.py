"""Where members are placed: in different locations, on hosts that are for them, and so that hosts can be
emptied."""

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from holdfast.authority.groups import GroupRecord, Placement
from holdfast.authority.views import View, ViewMember
from holdfast.control.replication.locations import choose, choose_many
from holdfast.control.replication.planner import LEARNERS_MAX, Action, Lead, Place, Remove, by_group, plan
from holdfast.control.replication.spec import DesiredState, GroupFact, GroupSpec, HostFact, ObservedState
from holdfast.model.host_roles import GROUPS, SEARCH
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, StoreId

THREE = GroupSpec(minimum=3)
ROUNDS_MAX = 200


def group(number: int, placed: list[str], in_sync: list[str] | None = None) -> GroupFact:
    record = GroupRecord(
        group=GroupId(number),
        class_name="x:X",
        style="warm_passive",
        members=tuple(Placement(host=HostId(each), store=StoreId("")) for each in placed),
        nonce=Nonce("n"),
        min_in_sync=2,
    )
    return listing(record, placed if in_sync is None else in_sync)


def listing(record: GroupRecord, in_sync: list[str]) -> GroupFact:
    members = tuple(
        ViewMember(host=HostId(each), store=StoreId(each), incarnation=Incarnation(1), opening=Opening(1))
        for each in in_sync
    )
    primary = HostId(in_sync[0]) if in_sync else HostId("")
    epoch, nonce = Epoch(1), Nonce("v")
    return GroupFact(
        record, View(group=record.group, epoch=epoch, primary=primary, members=members, nonce=nonce)
    )


def planned(
    groups: list[GroupFact], hosts: list[HostFact], spec: GroupSpec = THREE, draining: tuple[str, ...] = ()
) -> list[Action]:
    wishes = DesiredState({each.record.group: spec for each in groups}, frozenset(map(HostId, draining)))
    return list(plan(wishes, ObservedState(tuple(hosts), tuple(groups))).actions)


def done(groups: list[GroupFact], actions: list[Action]) -> list[GroupFact]:
    """The groups after these steps, when every member has caught up and every leaving one has left."""
    records = {each.record.group: each.record for each in groups}
    for action in actions:
        record = records[action.group]
        left = tuple(each for each in record.members if each.host != action.host)
        if isinstance(action, Place):
            left = (*record.members, Placement(host=action.host, store=StoreId("")))
        elif not isinstance(action, Remove):
            continue
        records[action.group] = msgspec.structs.replace(record, members=left)
    return [listing(each, [*each.placed_on]) for each in records.values()]


def racks(count: int, per_rack: int = 2, *, is_named_alike: bool = True) -> list[HostFact]:
    """Hosts in racks: all of a rack in one location, or each in one of its own within the rack."""
    return [
        HostFact(HostId(f"r{rack}h{host}"), f"rack{rack}" if is_named_alike else f"rack{rack}/h{host}")
        for rack in range(1, count + 1)
        for host in range(1, per_rack + 1)
    ]


def rack_of(host: str) -> str:
    return host.partition("h")[0]


def doubled(groups: list[GroupFact]) -> list[GroupFact]:
    """The groups with two members in one rack."""
    return [
        each for each in groups if max(Counter(map(rack_of, each.record.placed_on)).values(), default=0) > 1
    ]


@pytest.mark.parametrize("is_named_alike", [True, False])
@pytest.mark.parametrize("count", [3, 4, 5])
def test_of_300_groups_none_has_two_members_in_one_rack(count: int, is_named_alike: bool) -> None:
    """Two hosts in each rack: as the groups are created, as the manager places what is missing while only so
    many may learn at a time, and when a host is drained."""
    hosts = racks(count, is_named_alike=is_named_alike)
    load: Counter[HostId] = Counter()
    groups = []
    for number in range(1, 301):
        chosen = [each.host for each in choose_many(3, hosts, [], load)]
        load.update(chosen)
        groups.append(group(number, list(chosen)))
    assert doubled(groups) == []
    assert max(load.values()) - min(load[each.host] for each in hosts) <= 1, "and the load is even"

    begun = [group(number, [hosts[number % len(hosts)].host]) for number in range(1, 301)]
    for _ in range(ROUNDS_MAX):
        actions = planned(begun, hosts)
        if not actions:
            break
        begun = done(begun, actions)
        assert doubled(begun) == []
    assert {len(each.record.placed_on) for each in begun} == {3}

    for _ in range(ROUNDS_MAX):
        actions = planned(groups, hosts, draining=("r1h1",))
        if not [each for each in actions if not isinstance(each, Lead)]:
            break
        groups = done(groups, actions)
    assert [each for each in groups if "r1h1" in each.record.placed_on] == []
    assert doubled(groups) == []


def test_a_host_is_drained_where_every_location_has_a_member() -> None:
    """One goes as the other comes: the replacement may be where the drained one is, if no other place is
    free."""
    hosts = racks(3)
    before = group(1, ["r1h1", "r2h1", "r3h1"])
    placed, *_ = planned([before], hosts, draining=("r1h1",))
    assert (type(placed), placed.host) == (Place, "r1h2")
    (after,) = done([before], [placed])
    (removed,) = planned([after], hosts, draining=("r1h1",))
    assert (type(removed), removed.host) == (Remove, "r1h1")
    placed, *_ = planned([before], racks(4), draining=("r1h1",))
    assert rack_of(placed.host) == "r4", "a free location comes first"


def test_members_that_share_a_location_part_where_another_is_free() -> None:
    """A host was moved, or a rack came back: the primary stays where it is."""
    hosts = racks(4)
    crowded = group(1, ["r2h1", "r1h1", "r1h2"])
    assert [type(each) for each in planned([crowded], racks(2))] == [], "there is nowhere to go"
    (placed,) = planned([crowded], hosts)
    assert isinstance(placed, Place)
    assert rack_of(placed.host) in ("r3", "r4")
    (apart,) = done([crowded], [placed])
    (removed,) = planned([apart], hosts)
    assert (removed.host, removed.why) == ("r1h2", "r1h2 shares rack1 with another member")
    (settled,) = done([apart], [removed])
    assert doubled([settled]) == []
    assert planned([settled], hosts) == []


def test_a_nearer_host_is_not_taken_because_a_farther_one_is_busy() -> None:
    """The group waits for its turn rather than have two members in one rack."""
    hosts = racks(3, is_named_alike=False)
    busy = [group(100 + number, ["r1h1", "r3h1"], ["r1h1"]) for number in range(LEARNERS_MAX)]
    busy += [group(200 + number, ["r1h1", "r3h2"], ["r1h1"]) for number in range(LEARNERS_MAX)]
    waiting = group(1, ["r1h1", "r2h1"])
    wishes = DesiredState({GroupId(1): THREE} | {each.record.group: GroupSpec(minimum=2) for each in busy})
    found = plan(wishes, ObservedState(tuple(hosts), (waiting, *busy)))
    assert found.actions == ()
    assert list(by_group(found, GroupId(1))) == [
        "1 more needed: its turn comes when other members have caught up"
    ]
    far = choose(hosts, [hosts[0], hosts[2]], {}, busy={HostId("r3h1")})
    assert far is not None
    assert far.host == "r3h2", "of two that are as far, the idle one"


def test_members_are_placed_only_where_their_role_is() -> None:
    a, b, c, d = (HostFact(HostId(each), each) for each in "abcd")
    searching, both = replace(d, roles=(SEARCH,)), replace(d, roles=(GROUPS, SEARCH))
    assert planned([group(1, ["a", "b"])], [a, b, searching]) == []
    assert [each.host for each in planned([group(1, ["a", "b"])], [a, b, both])] == ["d"]
    anywhere = replace(THREE, role="")
    assert [each.host for each in planned([group(1, ["a", "b"])], [a, b, searching], anywhere)] == ["d"]
    found = plan(DesiredState({GroupId(1): THREE}), ObservedState((a, b, searching), (group(1, ["a", "b"]),)))
    assert list(by_group(found, GroupId(1))) == [
        "1 more needed, and no host with the role groups can take it"
    ]
    placed, lead = planned([group(1, ["d", "a", "b"])], [a, b, c, searching])
    assert (placed.host, type(lead)) == ("c", Lead), "who has lost the role is replaced, and leads nothing"
    (removed,) = planned([group(1, ["d", "a", "b", "c"])], [a, b, c, searching])
    assert removed.why == "d has not the role groups"
