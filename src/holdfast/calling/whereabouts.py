"""Where the hosts of a domain went, as one that calls its groups is told."""

from collections.abc import Iterable

from holdfast.model.calls import HOSTS_MAX, HostAt
from holdfast.model.ids import HostId
from holdfast.model.reference import Reference


class KnownHosts:
    """At most :data:`HOSTS_MAX`. Hosts know where the others went; of one that is gone the last address is
    kept."""

    def __init__(self) -> None:
        self._known: dict[HostId, HostAt] = {}

    def learn(self, hosts: Iterable[HostAt]) -> None:
        """A host says that these are in session."""
        for each in hosts:
            known = self._known.get(each.host)
            has_room = known is not None or len(self._known) < HOSTS_MAX
            if has_room and (known is None or known.incarnation < each.incarnation):
                self._known[each.host] = each

    def addresses(self, references: Iterable[Reference]) -> list[str]:
        """Theirs, and those of the members that *references* name; each once."""
        members = (member.address for each in references for member in each.members)
        told = (each.address for each in self._known.values())
        return list(dict.fromkeys((*told, *members)))
