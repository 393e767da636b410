"""Factories: the replication manager, and those of hosts. Both are asked alike (FTC-206)."""

import secrets
from collections.abc import Mapping
from typing import Any

from holdfast.client.criteria import NONE, encoded
from holdfast.client.ordering import Give
from holdfast.model.ids import GroupId
from holdfast.model.object_orders import CreateObject, DeleteObject, GroupReference, ObjectCreated


class Objects:
    """Made by the replication manager; with a *location*, by the factory there, without replicas."""

    def __init__(self, give: Give, location: str = "") -> None:
        self._give = give
        self._location = location

    async def create(self, type_id: str, criteria: Mapping[str, Any] = NONE) -> ObjectCreated:
        """Make an object of the class; its reference, and the id under which it is deleted.

        Criteria: ``org.omg.ft.FTProperties`` for the manager, ``org.omg.ft.ObjectLocation`` for a host's
        factory; ``name``, ``arguments``, ``min_in_sync``, ``durability`` and ``on_total_loss`` for both. A
        group whose members the application controls is made without any. Raises ``InvalidRequest``.
        """
        order = CreateObject(
            type_id=type_id,
            criteria=encoded(criteria),
            location=self._location,
            nonce=secrets.token_hex(16),
        )
        return await self._give(order, ObjectCreated)

    async def delete(self, factory_creation_id: int) -> GroupReference:
        """Delete what was made under that id; its last reference. Raises ``InvalidRequest``."""
        order = DeleteObject(factory_creation_id=GroupId(factory_creation_id), location=self._location)
        return await self._give(order, GroupReference)
