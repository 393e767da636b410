"""Whether hosts that a person names can have a group's members (W2)."""

from holdfast.admin.snapshot import Sessions
from holdfast.control.desired.state import DomainState
from holdfast.control.replication.spec import GroupSpec
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.reference import MEMBERS_MAX


def check_named(
    spec: GroupSpec, hosts: tuple[HostId, ...], min_in_sync: int, sessions: Sessions, state: DomainState
) -> None:
    """Check that a group can have its members on exactly these hosts. Raises ``InvalidRequest`` if not, and
    ``Unavailable`` if one of them does not live."""
    if len(hosts) > MEMBERS_MAX:
        raise InvalidRequest(f"{len(hosts)} hosts are named; a group has at most {MEMBERS_MAX} members")
    if len(hosts) < min_in_sync:
        said = f"{min_in_sync} members must hold an operation"
        raise InvalidRequest(f"{len(hosts)} hosts are named, and {said}: name as many at least")
    for host in hosts:
        if not state.takes_members(host):
            raise InvalidRequest(f"{host} is being emptied or was removed, and takes no members")
        if host not in sessions:
            there = ", ".join(sorted(sessions))
            raise Unavailable(f"there is no host {host!r}, or it does not live now; these live: {there}")
        if spec.role and spec.role not in sessions[host].roles:
            raise InvalidRequest(not_for(host, sessions))


def not_for(host: HostId, sessions: Sessions) -> str:
    """Why a host takes no members of ordinary groups."""
    return (
        f"{host} is for {', '.join(sessions[host].roles)}, and takes no groups: "
        f"`holdfast host set {host} --roles` changes that"
    )
