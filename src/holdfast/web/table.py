"""All endpoints, in the order in which they are documented."""

from typing import Final

from holdfast.web import about_calls, about_events, about_groups, about_host
from holdfast.web.about_docs import documented
from holdfast.web.endpoint import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = documented(
    (
        *about_host.ENDPOINTS,
        *about_groups.ENDPOINTS,
        *about_calls.ENDPOINTS,
        *about_events.ENDPOINTS,
    )
)
