"""What may be wrong with an order about groups, members and objects, by the names of the source (FTC-173 to
FTC-177). What may be wrong with properties is said in :mod:`~holdfast.model.properties`.
"""

from typing import Any

from holdfast.model.errors import InvalidRequest


class InterfaceNotFound(InvalidRequest):
    """Raised when a part of the infrastructure is asked for that is not registered (FTC-181)."""

    code = "interface_not_found"
    exception = "InterfaceNotFound"


class MemberAlreadyPresent(InvalidRequest):
    """Raised when a group is to have a second member at a location (FTC-134)."""

    code = "member_already_present"
    exception = "MemberAlreadyPresent"


class MemberNotFound(InvalidRequest):
    """Raised when a group has no member at that location."""

    code = "member_not_found"
    exception = "MemberNotFound"


class ObjectNotFound(InvalidRequest):
    """Raised when a factory has made no such object, or has deleted it (FTC-208)."""

    code = "object_not_found"
    exception = "ObjectNotFound"


class ObjectNotCreated(InvalidRequest):
    """Raised when a factory was asked for an object and its class failed to make one."""

    code = "object_not_created"
    exception = "ObjectNotCreated"


class ObjectNotAdded(InvalidRequest):
    """Raised when a group cannot take another member, there or at all."""

    code = "object_not_added"
    exception = "ObjectNotAdded"


class PrimaryNotSet(InvalidRequest):
    """Raised when the member that is to be primary cannot be one, because it is not in-sync."""

    code = "primary_not_set"
    exception = "PrimaryNotSet"


class BadReplicationStyle(InvalidRequest):
    """Raised when a primary is to be set of a group whose style has none (FTC-200)."""

    code = "bad_replication_style"
    exception = "BadReplicationStyle"


class NoFactory(InvalidRequest):
    """Raised when no factory at a location can make an object of a class (FTC-176)."""

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
    """Raised when a factory does not understand what it is told (FTC-177)."""

    code = "invalid_criteria"
    exception = "InvalidCriteria"

    def __init__(self, criteria: dict[str, Any], why: str) -> None:
        super().__init__(f"{', '.join(criteria)}: {why}")
        self.criteria = criteria

    @property
    def about(self) -> dict[str, Any]:
        return {"invalid_criteria": self.criteria}


class CannotMeetCriteria(InvalidRequest):
    """Raised when a factory understands what it is told, and cannot do it (FTC-177)."""

    code = "cannot_meet_criteria"
    exception = "CannotMeetCriteria"

    def __init__(self, criteria: dict[str, Any], why: str) -> None:
        super().__init__(f"{', '.join(criteria)}: {why}")
        self.criteria = criteria

    @property
    def about(self) -> dict[str, Any]:
        return {"unmet_criteria": self.criteria}
