"""What may be ordered about the domain's own state: who holds what, and going on from one (T4)."""

from msgspec import Struct

from holdfast.model.ids import HostId


class InspectDomain(Struct, frozen=True, kw_only=True, tag="inspect_domain"):
    """What does the host that is asked hold of the domain's wishes?"""


class RecoverDomain(Struct, frozen=True, kw_only=True, tag="recover_domain"):
    """Let the domain go on from the wishes that the host that is asked holds. From an admin who has seen that
    these are those of *cas*, and that nobody holds the committed ones any more."""

    cas: int


class DomainInspected(Struct, frozen=True, kw_only=True, tag="domain_inspected"):
    """An interface: scripts read it, so it changes only by adding."""

    host: HostId
    role: str
    """``coordinator``, ``replica``, ``onlooker``; or ``bootstrap`` while it has none of these."""
    cas: int
    """Of the wishes that it holds."""
    committed_cas: int
    """Of those that count."""
    coordinator: HostId
    """Whom it follows; empty when nobody."""
    term: int


DomainOrder = InspectDomain | RecoverDomain
