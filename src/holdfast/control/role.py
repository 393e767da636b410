"""The states of a manager (IM-60): from coordinator to replica and back only through bootstrap (IM-63)."""

import enum


class Role(enum.Enum):
    BOOTSTRAP = "bootstrap"
    COORDINATOR = "coordinator"
    REPLICA = "replica"
    ONLOOKER = "onlooker"
    """Enough others take part."""
