"""Errors of requests about groups, members and objects, by the source's names (FTC-173 to FTC-177).

Errors of properties are in :mod:`~holdfast.model.properties`.
"""

from typing import Any

from holdfast.model.errors import InvalidRequest


class InterfaceNotFound(InvalidRequest):
    """Raised when somebody asks for a part of the infrastructure that is not registered (FTC-181)."""

    code = "interface_not_found"
    exception = "InterfaceNotFound"


class MemberAlreadyPresent(InvalidRequest):
    """Raised when a group would get a second member at a location (FTC-134)."""

    code = "member_already_present"
    exception = "MemberAlreadyPresent"


class MemberNotFound(InvalidRequest):
    """Raised when a group has no member at that location."""

    code = "member_not_found"
    exception = "MemberNotFound"


class ObjectNotFound(InvalidRequest):
    """Raised when a factory has not created such an object, or has deleted it (FTC-208)."""

    code = "object_not_found"
    exception = "ObjectNotFound"


class ObjectNotCreated(InvalidRequest):
    """Raised when a factory was asked for an object and its class failed to create one."""

    code = "object_not_created"
    exception = "ObjectNotCreated"


class ObjectNotAdded(InvalidRequest):
    """Raised when a group cannot take another member, there or at all."""

    code = "object_not_added"
    exception = "ObjectNotAdded"


class PrimaryNotSet(InvalidRequest):
    """Raised when the requested member cannot become primary, because it is not in sync."""

    code = "primary_not_set"
    exception = "PrimaryNotSet"


class BadReplicationStyle(InvalidRequest):
    """Raised when somebody sets the primary of a group whose style has none (FTC-200)."""

    code = "bad_replication_style"
    exception = "BadReplicationStyle"


class NoFactory(InvalidRequest):
    """Raised when no factory at a location can create an object of a class (FTC-176)."""

    code = "no_factory"
    exception = "NoFactory"

    def __init__(self, location: str, type_id: str, why: str) -> None:
        super().__init__(f"{location or 'nowhere'} can make no {type_id}: {why}")
        self.location = location
        self.type_id = type_id

    @property
    def about(self) -> dict[str, Any]:
        return {"the_location": self.location, "type_id": self.type_id}


class InvalidCriteria(InvalidRequest):
    """Raised when a factory does not understand its criteria (FTC-177)."""

    code = "invalid_criteria"
    exception = "InvalidCriteria"

    def __init__(self, criteria: dict[str, Any], why: str) -> None:
        super().__init__(f"{', '.join(criteria)}: {why}")
        self.criteria = criteria

    @property
    def about(self) -> dict[str, Any]:
        return {"invalid_criteria": self.criteria}


class CannotMeetCriteria(InvalidRequest):
    """Raised when a factory understands its criteria but cannot meet them (FTC-177)."""

    code = "cannot_meet_criteria"
    exception = "CannotMeetCriteria"

    def __init__(self, criteria: dict[str, Any], why: str) -> None:
        super().__init__(f"{', '.join(criteria)}: {why}")
        self.criteria = criteria

    @property
    def about(self) -> dict[str, Any]:
        return {"unmet_criteria": self.criteria}
