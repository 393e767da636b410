"""All endpoints, in the order in which they are documented."""

from typing import Final

from holdfast.web import (
    about_calls,
    about_coordinator,
    about_events,
    about_faults,
    about_groups,
    about_host,
    about_indexes,
    about_members,
    about_objects,
    about_properties,
)
from holdfast.web.about_docs import documented
from holdfast.web.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = documented(
    (
        *about_host.ENDPOINTS,
        *about_groups.ENDPOINTS,
        *about_members.ENDPOINTS,
        *about_objects.ENDPOINTS,
        *about_properties.ENDPOINTS,
        *about_calls.ENDPOINTS,
        *about_events.ENDPOINTS,
        *about_faults.ENDPOINTS,
        *about_indexes.ENDPOINTS,
        *about_coordinator.ENDPOINTS,
    )
)
