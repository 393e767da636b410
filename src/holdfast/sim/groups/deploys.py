"""Which host has which version of the application, which it has had, and what was answered by which."""

from holdfast.model.ids import HostId
from holdfast.sim.groups.versions import LABELS, UNABLE
from holdfast.sim.world import World


class Deploys:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        rng = world.rng("versions")
        self.first = rng.choice(LABELS)
        """That every host begins with."""
        self.last = rng.choice([label for label in LABELS if label != UNABLE])
        """And that all have in the end."""
        self._labels: dict[HostId, str] = {}
        self._kept: dict[HostId, dict[str, None]] = {}
        self.are_all_kept = False
        """Somebody has put every version's sources on every host."""
        self.answered: dict[str, dict[str, str]] = {}
        """By the name of a group: by which version each token was appended, as its client was told."""

    def label(self, host: HostId) -> str:
        """What the next process of that host has."""
        return self._labels.get(host, self.first)

    def deploy(self, host: HostId, label: str) -> None:
        self._labels[host] = label

    def ran(self, host: HostId, label: str) -> None:
        """Its sources are on that host from here on."""
        self._kept.setdefault(host, {})[label] = None

    def lose(self, host: HostId, label: str) -> None:
        """And not any more."""
        self._kept.get(host, {}).pop(label, None)

    def is_kept(self, host: HostId, label: str) -> bool:
        return self.are_all_kept or label in self._kept.get(host, {})

    def acknowledged(self, group: str, token: str, label: str) -> None:
        """A client was told so: for good."""
        known = self.answered.setdefault(group, {}).setdefault(token, label)
        if known != label:
            said = f"{group}: {token} was done by {known}, and then by {label}"
            self._world.violation("E7", said)
