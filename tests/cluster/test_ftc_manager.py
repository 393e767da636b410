"""The replication manager through the HTTP endpoints of real hosts: use cases and exceptions of the
source."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from domain import WAIT_S, Domain, is_whole
from manager_doors import Manager

import holdfast as hf
from holdfast.agent.status_client import url_of
from holdfast.cli.admin import give_at
from holdfast.client.admin_client import AdminRefused
from holdfast.model.admin.groups import ExplainGroup, GroupExplained
from holdfast.model.admin.hosts import DrainHost, HostList, ListHosts
from holdfast.model.ids import HostId
from holdfast.node.layout import Layout

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("ftc")]

EXAMPLES = Path(__file__).parents[2] / "examples"
LEDGER, NOTHING = "ledger:Ledger", "ledger:Nothing"
PROPERTIES = "org.omg.ft.FTProperties"
HOSTS = ("host1", "host2", "host3")
LOCATION = "org.omg.ft.ObjectLocation"
MINIMUM = "org.omg.ft.MinimumNumberReplicas"


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    directory = tmp_path_factory.mktemp("ftc") / "d"
    with Domain(directory, "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        found = Manager(made)
        yield found
        found.close()


def _settled(manager: Manager, name: str) -> Any:
    """Return the group's reference in the version of its view: the two are requested one after the other."""

    def is_of_its_view(found: Any) -> bool:
        return bool(found["version"] == manager.done("GET", f"/v1/groups/{name}")["epoch"])

    return manager.until(f"/v1/groups/{name}/reference", is_of_its_view)


@pytest.mark.covers("FTC-206", "FTC-207", "FTC-211", "FTC-217", "FTC-221", "FTC-222", "FTC-223")
@pytest.mark.covers("FTC-225", "FTC-226", "FTC-228", "FTC-230", "FTC-231", "FTC-18", "FTC-201", "FTC-202")
def test_a_group_is_made_with_its_types_properties_under_those_of_its_criteria_and_deleted(
    manager: Manager,
) -> None:
    """The use case of infrastructure-controlled membership, step by step."""
    for nothing in ("nope", NOTHING):
        refused = manager.ask("POST", f"/v1/properties/types/{nothing}", {"properties": {}})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_class")
    manager.done("POST", f"/v1/properties/types/{LEDGER}", {"properties": {"CheckpointInterval": 70_000}})
    criteria = {"name": "inf", PROPERTIES: {"InitialNumberReplicas": 2, "MinimumNumberReplicas": 2}}
    made = manager.done("POST", "/v1/objects", {"type_id": LEDGER, "criteria": criteria})
    reference, number = made["reference"], made["factory_creation_id"]
    assert (reference["domain"], reference["group"]) == (manager.name, number)
    effective = manager.done("GET", "/v1/groups/inf/properties")["effective"]
    assert (effective["org.omg.ft.InitialNumberReplicas"], effective["org.omg.ft.CheckpointInterval"]) == (
        2,
        70_000,
    )
    whole = manager.in_sync("inf", 2)
    assert [each["is_primary"] for each in whole["members"]] == [True, False], "the primary comes first"
    assert len({each["location"] for each in whole["members"]}) == 2
    whole = _settled(manager, "inf")
    assert whole["version"] > 0
    assert (whole["domain"], whole["group"]) == (manager.name, number)
    assert manager.deposit("inf") == 1
    manager.done("POST", "/v1/groups/inf/primary", {"location": whole["members"][1]["host"]})
    moved = _settled(manager, "inf")
    assert moved["version"] > whole["version"]
    assert [each["host"] for each in moved["members"]] == [each["host"] for each in whole["members"][::-1]]
    assert manager.done("DELETE", f"/v1/objects/{number}")["group"] == number
    assert (
        manager.ask("GET", "/v1/groups/inf/reference").json()["error"]["exception"] == "ObjectGroupNotFound"
    )
    again = manager.ask("DELETE", f"/v1/objects/{number}").json()["error"]
    assert again["exception"] == "ObjectNotFound"
    manager.done("DELETE", f"/v1/properties/types/{LEDGER}?names=CheckpointInterval")


@pytest.mark.covers("FTC-19", "FTC-191", "FTC-194", "FTC-196", "FTC-199", "FTC-203", "FTC-204")
@pytest.mark.covers("FTC-205", "FTC-213", "FTC-215", "FTC-232", "FTC-233", "FTC-237", "FTC-34")
def test_an_application_makes_the_members_of_its_group_one_by_one(manager: Manager) -> None:
    """The use case of application-controlled membership, step by step."""
    manager.done("GET", "/v1/properties")
    criteria = {"name": "app", "min_in_sync": 1, PROPERTIES: {"MembershipStyle": "MEMB_APP_CTRL"}}
    made = manager.done("POST", "/v1/objects", {"type_id": LEDGER, "criteria": criteria})
    assert (made["reference"]["members"], made["reference"]["version"]) == ([], 0)
    layout = Layout(manager.domain.directory)
    said = asyncio.run(give_at(layout, ExplainGroup(name="app"), GroupExplained))
    assert said.group_says == ("it has no members yet",)
    assert said.manager_says == ("0 members, 3 wished for: its application places them",)
    manager.done("POST", "/v1/groups/app/members", {"location": "host3", "type_id": LEDGER})
    alone = manager.in_sync("app", 1)
    assert [each["host"] for each in alone["members"]] == ["host3"]
    assert manager.deposit("app") == 1
    two = manager.done("POST", "/v1/groups/app/members", {"location": "host1"})
    assert [each["host"] for each in two["members"]] == ["host3", "host1"]
    both = manager.in_sync("app", 2)
    assert both["version"] > alone["version"]
    assert both["group"] == made["factory_creation_id"]
    moved = manager.done("POST", "/v1/groups/app/primary", {"location": "host1"})
    assert moved["version"] > both["version"]
    member = manager.done("GET", "/v1/groups/app/members/host1")
    assert (member["is_primary"], member["address"] != "") == (True, True)
    manager.done("DELETE", "/v1/groups/app/members/host3")
    left = manager.until("/v1/groups/app", lambda found: found["leaving"] == [])
    assert (left["placed_on"], left["in_sync"]) == (["host1"], ["host1"])
    assert manager.deposit("app") == 2, "the member that was made later has what the first one acknowledged"
    assert manager.done("GET", "/v1/groups/app/reference")["version"] > moved["version"]
    manager.done("DELETE", f"/v1/objects/{made['factory_creation_id']}")


@pytest.mark.covers("FTC-17", "FTC-208", "FTC-209", "FTC-210", "FTC-238")
def test_objects_without_replicas_are_made_called_and_deleted_as_others_are(manager: Manager) -> None:
    factory = "/v1/factories/host2/objects"
    order = {"type_id": LEDGER, "criteria": {"name": "alone", LOCATION: "host2"}}
    made = manager.done("POST", factory, order)
    other = manager.done("POST", factory, {"type_id": LEDGER, "criteria": {"name": "other"}})
    assert made["factory_creation_id"] != other["factory_creation_id"]
    manager.in_sync("alone", 1)
    assert [each["host"] for each in manager.in_sync("alone", 1)["members"]] == ["host2"]
    assert manager.deposit("alone") == 1
    elsewhere = f"/v1/factories/host1/objects/{made['factory_creation_id']}"
    assert manager.refused("DELETE", elsewhere) == "ObjectNotFound"
    for each in (made, other):
        manager.done("DELETE", f"{factory}/{each['factory_creation_id']}")
    assert manager.ask("GET", "/v1/groups/alone").status_code == 404


@pytest.mark.covers("FTC-7", "FTC-189", "FTC-163")
def test_a_minimum_that_is_raised_while_the_group_runs_takes_effect_without_a_restart(
    manager: Manager,
) -> None:
    order = {"name": "grown", "class_name": LEDGER, "replicas": 2}
    before = manager.done("POST", "/v1/groups", order)
    manager.in_sync("grown", 2)
    assert manager.deposit("grown") == 1
    raised = {"properties": {"MinimumNumberReplicas": 3}}
    assert manager.done("POST", "/v1/groups/grown/properties", raised)["effective"][MINIMUM] == 3
    assert {each["host"] for each in manager.in_sync("grown", 3)["members"]} == {"host1", "host2", "host3"}
    assert manager.done("GET", "/v1/groups/grown")["group"] == before["group"]
    assert manager.deposit("grown") == 2
    manager.done("DELETE", "/v1/groups/grown")


@pytest.mark.covers("FTC-183", "FTC-184", "FTC-185")
def test_defaults_hold_for_groups_made_afterwards_through_any_host(manager: Manager) -> None:
    manager.done("POST", "/v1/groups", {"name": "before", "class_name": LEDGER})
    manager.done("POST", "/v1/properties", {"properties": {"InitialNumberReplicas": 1}})
    for door in range(3):
        deadline = time.monotonic() + WAIT_S
        while manager.ask("GET", "/v1/properties", door=door).json()["own"] == {}:
            assert time.monotonic() < deadline, "a host does not hear of the defaults"
            time.sleep(0.05)
    after = manager.ask("POST", "/v1/groups", {"name": "after", "class_name": LEDGER}, door=2).json()
    assert len(after["placed_on"]) == 1
    assert len(manager.done("GET", "/v1/groups/before")["placed_on"]) == 3
    assert manager.done("DELETE", "/v1/properties?names=InitialNumberReplicas")["own"] == {}
    for name in ("before", "after"):
        manager.done("DELETE", f"/v1/groups/{name}")


@pytest.mark.covers("FTC-161", "FTC-214", "FTC-224")
def test_members_are_made_where_the_group_has_factories(manager: Manager) -> None:
    """This holds although the host that is asked is not such a place; and elsewhere, once that is set at run
    time."""
    factories = [{"location": "host2"}, {"location": "host3"}]
    properties = {"Factories": factories, "InitialNumberReplicas": 2, "MinimumNumberReplicas": 2}
    criteria = {"name": "placed", PROPERTIES: properties}
    manager.done("POST", "/v1/objects", {"type_id": LEDGER, "criteria": criteria})
    whole = manager.in_sync("placed", 2)
    assert {each["host"] for each in whole["members"]} == {"host2", "host3"}
    assert manager.deposit("placed") == 1
    more = {"Factories": [*factories, {"location": "host1"}], "MinimumNumberReplicas": 3}
    manager.done("POST", "/v1/groups/placed/properties", {"properties": more})
    assert {each["host"] for each in manager.in_sync("placed", 3)["members"]} == {"host1", "host2", "host3"}
    nowhere = {**properties, "Factories": [{"location": "attic"}]}
    order = {"type_id": LEDGER, "criteria": {"name": "never", PROPERTIES: nowhere}}
    assert manager.refused("POST", "/v1/objects", order) == "NoFactory"
    manager.done("DELETE", "/v1/groups/placed")


@pytest.mark.covers("FTC-13", "FTC-137")
def test_an_application_that_keeps_itself_consistent_is_left_to_it(manager: Manager) -> None:
    """Only the primary executes; the next primary has only what it has itself."""
    app = {"properties": {"ConsistencyStyle": "CONS_APP_CTRL"}}
    manager.done("POST", f"/v1/properties/types/{LEDGER}", app)
    manager.done("POST", "/v1/groups", {"name": "self", "class_name": LEDGER, "replicas": 2})
    primary, backup = (each["host"] for each in manager.in_sync("self", 2)["members"])
    assert [manager.deposit("self") for _ in range(2)] == [1, 2]
    for door in range(3):
        assert manager.deposit("self", door=door) == 3 + door, "every host's clients reach the primary"
    manager.done("POST", "/v1/groups/self/primary", {"location": backup})
    assert manager.deposit("self") == 1
    manager.done("POST", "/v1/groups/self/primary", {"location": primary})
    assert manager.deposit("self") == 6
    manager.done("DELETE", "/v1/groups/self")
    manager.done("DELETE", f"/v1/properties/types/{LEDGER}?names=ConsistencyStyle")


def _managed(domain: Domain) -> HostList:
    """Return the hosts of a domain, once one of them manages it."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = asyncio.run(give_at(Layout(domain.directory), ListHosts(), HostList))
        if found.manager:
            return found
        time.sleep(0.05)
    raise AssertionError(f"nobody manages the domain: {found}")


@pytest.mark.covers("FTC-180", "FTC-181")
def test_the_fault_notifier_is_found_once_it_is_registered(manager: Manager) -> None:
    assert manager.refused("GET", "/v1/fault-notifier") == "InterfaceNotFound"
    assert manager.refused("POST", "/v1/fault-notifier", {"group": "nobody"}) == "ObjectGroupNotFound"
    manager.done("POST", "/v1/groups", {"name": "faults", "class_name": LEDGER})
    manager.done("POST", "/v1/fault-notifier", {"group": "faults"})
    assert manager.done("GET", "/v1/fault-notifier")["group"] == "faults"
    manager.done("POST", "/v1/fault-notifier", {"group": ""})
    manager.done("DELETE", "/v1/groups/faults")


def test_programs_manage_groups_with_and_without_an_event_loop(manager: Manager) -> None:
    """The same through the client, as `connect` and `connect_sync` give it."""
    layout = Layout(manager.domain.directory)
    url = asyncio.run(url_of(layout, layout.read()))

    async def work() -> None:
        async with hf.connect(url, dir=layout.directory) as domain:
            await domain.type_properties(LEDGER).set(CheckpointInterval=50_000)
            assert await domain.properties.get() == {}
            books = await domain.create(LEDGER, name="books", properties={"InitialNumberReplicas": 2})
            assert (await books.properties.get())["org.omg.ft.CheckpointInterval"] == 50_000
            await domain.type_properties(LEDGER).remove("CheckpointInterval")
            assert len((await books.reference()).members) == 2
            with pytest.raises(AdminRefused) as refused:
                await books.properties.set(ReplicationStyle="active")
            assert refused.value.source_exception == "InvalidProperty"
            assert refused.value.about["val"] == "active"
            alone = await domain.factory("host2").create(LEDGER)
            assert [each.location for each in alone.reference.members] == ["host2"]
            await domain.factory("host2").delete(alone.factory_creation_id)

    asyncio.run(work())
    with hf.connect_sync(url, dir=layout.directory) as domain:
        books = domain.group("books")
        assert books.properties.set(MinimumNumberReplicas=1)[MINIMUM] == 1
        assert books.properties.own() == {MINIMUM: 1}
        books.properties.remove("MinimumNumberReplicas")
        free = next(host for host in HOSTS if host not in [each.host for each in books.reference().members])
        assert free in [each.host for each in books.create_member(free).members]
        domain.delete("books")


@pytest.mark.covers("FTC-5")
def test_one_machine_has_hosts_of_two_domains_and_each_manages_its_own_groups(
    manager: Manager, tmp_path: Path
) -> None:
    """Groups of one name in both are two groups, each created, known and managed by its own domain alone."""
    with Domain(tmp_path / "other", "--app", str(EXAMPLES), "--hosts", "1") as beside:
        _managed(beside)
        other = Manager(beside)
        for each, name in ((manager, "twin"), (manager, "single"), (other, "twin")):
            each.done("POST", "/v1/groups", {"name": name, "class_name": LEDGER, "replicas": 1})
        assert [manager.deposit("twin"), manager.deposit("twin"), other.deposit("twin")] == [1, 2, 1]
        assert other.refused("GET", "/v1/groups/single/reference") == "ObjectGroupNotFound"
        other.done("POST", "/v1/properties", {"properties": {"InitialNumberReplicas": 1}})
        assert manager.done("GET", "/v1/properties")["own"] == {}
        for each, hosts in ((manager, ["host1", "host2", "host3"]), (other, ["host1"])):
            found = _managed(each.domain)
            assert [host.host for host in found.hosts] == hosts
            assert found.manager in hosts
        other.done("DELETE", "/v1/groups/twin")
        assert manager.deposit("twin") == 3
        other.close()
    for name in ("twin", "single"):
        manager.done("DELETE", f"/v1/groups/{name}")


# --- exceptions

OBJECTS = "/v1/objects"
PLACES = ("location", "host")
"""For the group ``small``, host1 stands for a member and host3 for a host that is none."""


def new(type_id: str = LEDGER, **criteria: Any) -> dict[str, Any]:
    return {"type_id": type_id, "criteria": {"name": "never", **criteria}}


EXCEPTIONS: list[tuple[str, str, object, int, str, dict[str, Any]]] = [
    ("GET", "/v1/fault-notifier", None, 404, "InterfaceNotFound", {}),
    ("GET", "/v1/groups/nobody/reference", None, 404, "ObjectGroupNotFound", {}),
    ("POST", "/v1/groups/nobody/members", {"location": "host1"}, 404, "ObjectGroupNotFound", {}),
    ("DELETE", "/v1/groups/nobody/members/host1", None, 404, "ObjectGroupNotFound", {}),
    ("POST", "/v1/groups/nobody/primary", {"location": "host1"}, 404, "ObjectGroupNotFound", {}),
    ("GET", "/v1/groups/nobody/properties", None, 404, "ObjectGroupNotFound", {}),
    ("POST", "/v1/groups/nobody/properties", {"properties": {}}, 404, "ObjectGroupNotFound", {}),
    ("GET", "/v1/groups/small/members/host9", None, 404, "MemberNotFound", {}),
    ("DELETE", "/v1/groups/small/members/host9", None, 404, "MemberNotFound", {}),
    ("POST", "/v1/groups/small/primary", {"location": "host9"}, 404, "MemberNotFound", {}),
    ("DELETE", "/v1/objects/999999", None, 404, "ObjectNotFound", {}),
    ("POST", "/v1/groups/small/members", {"location": "host1"}, 409, "MemberAlreadyPresent", {}),
    ("POST", "/v1/groups/nobody/added-members", {"host": "host1"}, 404, "ObjectGroupNotFound", {}),
    ("POST", "/v1/groups/small/added-members", {"host": "host1"}, 409, "MemberAlreadyPresent", {}),
    ("POST", "/v1/groups/free/primary", {"location": "host1"}, 400, "BadReplicationStyle", {}),
    ("POST", OBJECTS, new(arguments=[1, 2]), 400, "ObjectNotCreated", {}),
    (
        "POST",
        "/v1/properties",
        {"properties": {"Colour": "red"}},
        400,
        "UnsupportedProperty",
        {"nam": "org.omg.ft.Colour", "val": "red"},
    ),
    (
        "POST",
        "/v1/groups/small/properties",
        {"properties": {"ReplicationStyle": 1}},
        400,
        "InvalidProperty",
        {"nam": "org.omg.ft.ReplicationStyle", "val": 1},
    ),
    (
        "POST",
        OBJECTS,
        new(**{PROPERTIES: {"InitialNumberReplicas": 0}}),
        400,
        "InvalidProperty",
        {"nam": "org.omg.ft.InitialNumberReplicas", "val": 0},
    ),
    (
        "POST",
        "/v1/groups/small/members",
        {"location": "attic"},
        400,
        "NoFactory",
        {"the_location": "attic", "type_id": LEDGER},
    ),
    (
        "POST",
        OBJECTS,
        new("ledger:Nothing"),
        400,
        "NoFactory",
        {"the_location": "", "type_id": "ledger:Nothing"},
    ),
    ("POST", OBJECTS, new(colour="red"), 400, "InvalidCriteria", {"invalid_criteria": {"colour": "red"}}),
    (
        "POST",
        "/v1/groups/small/members",
        {"location": "host3", "criteria": {"colour": "red"}},
        400,
        "InvalidCriteria",
        {"invalid_criteria": {"colour": "red"}},
    ),
    (
        "POST",
        "/v1/groups/small/members",
        {"location": "host3", "criteria": {"arguments": [1]}},
        400,
        "CannotMeetCriteria",
        {"unmet_criteria": {"arguments": [1]}},
    ),
    ("POST", OBJECTS, new(min_in_sync=9), 400, "CannotMeetCriteria", {"unmet_criteria": {"min_in_sync": 9}}),
    (
        "POST",
        "/v1/factories/host1/objects",
        new(**{LOCATION: "host2"}),
        400,
        "CannotMeetCriteria",
        {"unmet_criteria": {LOCATION: "host2"}},
    ),
]


@pytest.mark.covers("FTC-171", "FTC-172", "FTC-173", "FTC-174", "FTC-175", "FTC-176", "FTC-177", "FTC-181")
@pytest.mark.covers("FTC-134", "FTC-191", "FTC-193", "FTC-194", "FTC-199", "FTC-200", "FTC-207", "FTC-218")
@pytest.mark.covers("FTC-189", "FTC-190", "FTC-201", "FTC-202", "FTC-203", "FTC-204", "FTC-208")
def test_every_exception_of_the_source_is_named_with_what_was_wrong(manager: Manager) -> None:
    """Nothing has changed after any of them."""
    small = {"name": "small", "class_name": LEDGER, "replicas": 2, "minimum": 1, "min_in_sync": 1}
    manager.done("POST", "/v1/groups", small)
    manager.done("POST", "/v1/groups", {"name": "free", "class_name": LEDGER, "style": "stateless"})
    before = manager.in_sync("small", 2)
    hosts = [each["host"] for each in before["members"]]
    outside = next(host for host in HOSTS if host not in hosts)
    there = {"host1": hosts[0], "host3": outside}
    raised = []
    for method, path, body, status, exception, about in EXCEPTIONS:
        if path.startswith("/v1/groups/small/") and isinstance(body, dict):
            body = {
                name: there.get(value, value) if name in PLACES else value for name, value in body.items()
            }
        answer = manager.ask(method, path, body)
        problem = answer.json()["error"]
        assert (answer.status_code, problem.get("exception")) == (status, exception), (path, body, problem)
        assert problem.get("about", {}) == about, (path, body, problem)
        raised.append(exception)
    raised.append(_not_added(manager, outside))
    assert manager.done("GET", "/v1/groups/small/reference") == before
    raised.append(_primary_not_set(manager))
    assert set(raised) == {
        *("InterfaceNotFound", "ObjectGroupNotFound", "MemberNotFound", "ObjectNotFound"),
        *("MemberAlreadyPresent", "BadReplicationStyle", "ObjectNotCreated", "ObjectNotAdded"),
        *("PrimaryNotSet", "UnsupportedProperty", "InvalidProperty", "NoFactory"),
        *("InvalidCriteria", "CannotMeetCriteria"),
    }
    for name in ("small", "free"):
        manager.done("DELETE", f"/v1/groups/{name}")


def _not_added(manager: Manager, host: str) -> str:
    """A host that is being drained takes no members."""
    layout, order = Layout(manager.domain.directory), DrainHost(host=HostId(host))
    asyncio.run(give_at(layout, order, HostList))
    try:
        return manager.refused("POST", "/v1/groups/small/added-members", {"host": host})
    finally:
        asyncio.run(give_at(layout, DrainHost(host=HostId(host), is_draining=False), HostList))


def _primary_not_set(manager: Manager) -> str:
    """A member that lost contact is not in sync, and so cannot be primary."""
    primary, backup = (each["host"] for each in manager.done("GET", "/v1/groups/small/reference")["members"])
    door = int(primary.removeprefix("host")) - 1
    pid = manager.domain.host(backup)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert manager.deposit("small", door=door) == 1  # without the backup, once it is dropped
        return manager.refused("POST", "/v1/groups/small/primary", {"location": backup}, door=door)
    finally:
        os.kill(pid, signal.SIGCONT)
