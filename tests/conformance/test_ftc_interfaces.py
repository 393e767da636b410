"""The operations of the source's three interfaces, each at its place in the API (FTC-179)."""

import pytest

from holdfast.web.door import ENDPOINTS

GROUP, MEMBERS = "/v1/groups/{name}", "/v1/groups/{name}/members"

OPERATIONS = {
    # ReplicationManager
    "register_fault_notifier": ("POST", "/v1/fault-notifier"),
    "get_fault_notifier": ("GET", "/v1/fault-notifier"),
    # PropertyManager
    "set_default_properties": ("POST", "/v1/properties"),
    "get_default_properties": ("GET", "/v1/properties"),
    "remove_default_properties": ("DELETE", "/v1/properties"),
    "set_type_properties": ("POST", "/v1/properties/types/{type_id}"),
    "get_type_properties": ("GET", "/v1/properties/types/{type_id}"),
    "remove_type_properties": ("DELETE", "/v1/properties/types/{type_id}"),
    "set_properties_dynamically": ("POST", f"{GROUP}/properties"),
    "get_properties": ("GET", f"{GROUP}/properties"),
    # ObjectGroupManager
    "create_member": ("POST", MEMBERS),
    "add_member": ("POST", f"{GROUP}/added-members"),
    "remove_member": ("DELETE", f"{MEMBERS}/{{location}}"),
    "set_primary_member": ("POST", f"{GROUP}/primary"),
    "locations_of_members": ("GET", f"{GROUP}/reference"),
    "get_object_group_id": ("GET", f"{GROUP}/reference"),
    "get_object_group_ref": ("GET", f"{GROUP}/reference"),
    "get_member_ref": ("GET", f"{MEMBERS}/{{location}}"),
    # GenericFactory, of the manager and of a location
    "create_object": ("POST", "/v1/objects"),
    "delete_object": ("DELETE", "/v1/objects/{id}"),
    "create_object at a location": ("POST", "/v1/factories/{location}/objects"),
    "delete_object at a location": ("DELETE", "/v1/factories/{location}/objects/{id}"),
}


@pytest.mark.covers("FTC-179", "FTC-206")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_of_the_manager_has_its_endpoint(operation: str) -> None:
    assert OPERATIONS[operation] in [(each.method, each.path) for each in ENDPOINTS]


@pytest.mark.covers("FTC-182")
def test_there_is_no_operation_for_fault_monitors() -> None:
    assert [each.name for each in ENDPOINTS if "monitor" in each.name] == []
