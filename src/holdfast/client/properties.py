"""Properties of a domain, of a class, or of a running group: read and changed through any host."""

from typing import Any

from holdfast.client.ordering import Give
from holdfast.model.property_orders import PropertiesShown, RemoveProperties, SetProperties, ShowProperties


class Properties:
    """Of the group or of the class that is named, or else of the domain. Names may be written without
    ``org.omg.ft.``. What is set is in effect for what is ordered of the same host from then on, and of the
    others a moment later."""

    def __init__(self, give: Give, *, type_id: str = "", group: str = "") -> None:
        self._give = give
        self._type_id = type_id
        self._group = group

    async def get(self) -> dict[str, Any]:
        """What is in effect there: of a class with the defaults (FTC-187), of a group on all levels
        (FTC-190)."""
        return (await self._shown()).effective

    async def own(self) -> dict[str, Any]:
        """What is set there, and nowhere above or below."""
        return (await self._shown()).own

    async def set(self, **properties: Any) -> dict[str, Any]:
        """Set these, beside those that are; what is in effect then. Raises ``InvalidRequest`` for what may
        not be set there, or not to that, naming the first."""
        order = SetProperties(properties=properties, type_id=self._type_id, group=self._group)
        return (await self._give(order, PropertiesShown)).effective

    async def remove(self, *names: str) -> dict[str, Any]:
        """Let these be set there no longer; what is in effect then."""
        properties: dict[str, Any] = dict.fromkeys(names)
        order = RemoveProperties(properties=properties, type_id=self._type_id, group=self._group)
        return (await self._give(order, PropertiesShown)).effective

    async def _shown(self) -> PropertiesShown:
        return await self._give(ShowProperties(type_id=self._type_id, group=self._group), PropertiesShown)
