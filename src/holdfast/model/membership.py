"""What may be wrong with an order about the members of a group, by the names of the source (FTC-173)."""

from holdfast.model.errors import InvalidRequest


class MemberAlreadyPresent(InvalidRequest):
    """Raised when a group is to have a second member at a location (FTC-134)."""

    code = "member_already_present"


class MemberNotFound(InvalidRequest):
    """Raised when a group has no member at that location."""

    code = "member_not_found"


class PrimaryNotSet(InvalidRequest):
    """Raised when the member that is to be primary cannot be one, because it is not in-sync."""

    code = "primary_not_set"


class BadReplicationStyle(InvalidRequest):
    """Raised when a primary is to be set of a group whose style has none (FTC-200)."""

    code = "bad_replication_style"
