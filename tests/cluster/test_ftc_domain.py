"""What an application does with members, and what a domain has one of and what many, on real hosts."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from domain import Domain, is_whole
from manager_doors import Manager

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
PROPERTIES = "org.omg.ft.FTProperties"
TILL, OWN = "till:Till", "till:OWN"
BY_APPLICATION = {"MembershipStyle": "MEMB_APP_CTRL"}


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    with Domain(tmp_path_factory.mktemp("ftc-domain") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        found = Manager(made)
        yield found
        found.close()


def onlooker(manager: Manager, host: str) -> str:
    """The name of an object on that host which sees what its process has."""
    name = f"onlooker at {host}"
    criteria = {"name": name}
    manager.done("POST", f"/v1/factories/{host}/objects", {"type_id": "till:Onlooker", "criteria": criteria})
    manager.in_sync(name, 1)
    return name


def left(manager: Manager, name: str, host: str) -> None:
    """Remove the member there, and wait until it has left."""
    manager.done("DELETE", f"/v1/groups/{name}/members/{host}")
    manager.until(f"/v1/groups/{name}", lambda found: host not in (*found["leaving"], *found["in_sync"]))


@pytest.mark.covers("FTC-193", "FTC-195", "FTC-196", "FTC-234")
def test_an_object_that_the_application_made_is_a_member_until_it_is_removed(manager: Manager) -> None:
    """It executes what the group's primary does, with the group's state; removed, it is still there, as it
    was then. One that a factory made is gone."""
    criteria = {"name": "tills", "min_in_sync": 1, PROPERTIES: BY_APPLICATION}
    manager.done("POST", "/v1/objects", {"type_id": TILL, "criteria": criteria})
    manager.done("POST", "/v1/groups/tills/members", {"location": "host1"})
    manager.in_sync("tills", 1)
    assert manager.call("tills", "add", 5) == 5
    assert manager.call("tills", "whose") == "a factory"
    there = onlooker(manager, "host2")

    for wrong in ("till:NOTHING", "till:Till", "nowhere:OWN"):
        order = {"host": "host2", "own": wrong}
        assert manager.refused("POST", "/v1/groups/tills/added-members", order) == "ObjectNotAdded"
    added = manager.done("POST", "/v1/groups/tills/added-members", {"host": "host2", "own": OWN})
    assert {each["host"]: each["own"] for each in added["members"]} == {"host1": "", "host2": OWN}
    manager.in_sync("tills", 2)
    manager.done("POST", "/v1/groups/tills/primary", {"location": "host2"})
    assert manager.call("tills", "whose") == "the application"
    assert manager.call("tills", "add", 1) == 6, "it has the state of the group"
    assert manager.call(there, "total_of_own") == 6
    assert manager.call(there, "made_by_factories") == 0
    manager.done("POST", "/v1/groups", {"name": "others", "class_name": TILL, "replicas": 1})
    taken = {"host": "host2", "own": OWN}
    assert manager.refused("POST", "/v1/groups/others/added-members", taken) == "ObjectNotAdded"

    manager.done("POST", "/v1/groups/tills/primary", {"location": "host1"})
    left(manager, "tills", "host2")
    assert manager.call("tills", "add", 1) == 7
    assert manager.call(there, "total_of_own") == 6, "it is there, and is a member no more"

    manager.done("POST", "/v1/groups/tills/members", {"location": "host2"})
    manager.in_sync("tills", 2)
    manager.done("POST", "/v1/groups/tills/primary", {"location": "host2"})
    assert manager.call("tills", "whose") == "a factory"
    assert manager.call(there, "made_by_factories") == 1
    manager.done("POST", "/v1/groups/tills/primary", {"location": "host1"})
    left(manager, "tills", "host2")
    assert manager.call(there, "made_by_factories") == 0, "what the factory made is deleted"
    assert manager.call(there, "total_of_own") == 6
    assert manager.call("tills", "add", 1) == 8
    for name in ("tills", "others", there):
        manager.done("DELETE", f"/v1/groups/{name}")
