"""How the groups of a running host take other settings.

What is under way goes on as it began. A group's own options (:mod:`.settings`) keep their precedence.
"""

from collections.abc import Mapping

from holdfast.groups.disk_space import DiskSpace
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.other_hosts import OtherHosts
from holdfast.groups.ports import DiskGuard
from holdfast.groups.settings import GroupsConfig
from holdfast.model.ids import GroupId


class Tuning:
    """The settings of the groups of one host."""

    def __init__(
        self,
        config: GroupsConfig,
        hosted: Mapping[GroupId, HostedGroup],
        peers: OtherHosts,
        space: DiskSpace,
        guard: DiskGuard,
    ) -> None:
        self.config = config
        """What a group that comes to this host begins with."""
        self._hosted = hosted
        self._space = space
        # A lease that is longer than ever is written down first, and the disk may fail.
        self._retune_leases = guard.guarded(peers.leases.retune)

    def tune(self, config: GroupsConfig) -> None:
        """Let all groups here, and the leases and the disk's reserve, go on with *config*."""
        self.config = config
        self._retune_leases(config.leases)
        self._space.tune(config.space)
        for hosted in self._hosted.values():
            hosted.tune(config)
