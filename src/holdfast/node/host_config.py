"""Everything of a host that can be set, as one value.

Each field is the section of the same name in `holdfast.toml`; its struct documents and checks its fields.
A host takes such a value when it starts, and later ones while it runs, as far as that is possible.
"""

from msgspec import Struct

from holdfast.authority.client import ClientConfig as AuthorityConfig
from holdfast.authority.move.follower import FollowerConfig
from holdfast.calling.config import ClientConfig
from holdfast.clock.errors import ClockConfig
from holdfast.control.coordination.config import ControlConfig
from holdfast.directory.replication.ports import ReplicationConfig
from holdfast.groups.settings import GroupsConfig
from holdfast.net.limits import Limits
from holdfast.node.heartbeats import HeartbeatConfig
from holdfast.node.streams.config import StreamsConfig
from holdfast.sequence.config import LeaseConfig, SequenceConfig
from holdfast.shipping.fetch import ShippingConfig
from holdfast.storage.free_space import SpaceConfig
from holdfast.storage.segments import LogConfig
from holdfast.styles.config import StyleConfig

FILE_BYTES = 16 << 20
"""The size of a log file. Two files are kept ready at all times, and a machine with several hosts should
not need a gigabyte to start."""


class HostConfig(Struct, frozen=True, kw_only=True):
    """The settings of one host."""

    leases: LeaseConfig = LeaseConfig()
    """Leases between hosts: how long a primary may answer reads by itself, and how long a host that fell
    silent is waited for (R3, R5)."""
    sequence: SequenceConfig = SequenceConfig()
    """How groups order and replicate their operations."""
    execution: StyleConfig = StyleConfig()
    """How groups execute, and when they keep checkpoints."""
    calls: ClientConfig = ClientConfig()
    """Calls that groups make to other groups."""
    disk: SpaceConfig = SpaceConfig()
    """How much of the disk is kept free."""
    log: LogConfig = LogConfig(file_bytes=FILE_BYTES)
    """The files of a host's log."""
    heartbeats: HeartbeatConfig = HeartbeatConfig()
    """How hosts show each other that they live, and when one that stands still ends itself."""
    connections: Limits = Limits()
    """Bounds of the connections that a host accepts and makes."""
    control: ControlConfig = ControlConfig()
    """The control plane: coordination of the domain's own state."""
    clock: ClockConfig = ClockConfig()
    """The clock that numbers operations."""
    authority: AuthorityConfig = AuthorityConfig()
    """How long a host waits for an embedded authority."""
    moves: FollowerConfig = FollowerConfig()
    """How a host follows an authority that moves."""

    shipping: ShippingConfig = ShippingConfig()
    """The files that hosts send each other: of stored objects, and of directories (W6)."""

    directory: ReplicationConfig = ReplicationConfig()
    """How masters of a directory replicate, and how long they keep changes for each other."""

    streams: StreamsConfig = StreamsConfig()
    """How far the sources of streams may go ahead of the groups that take them, and the message log."""

    @property
    def groups(self) -> GroupsConfig:
        """The part that the groups of the host need."""
        return GroupsConfig(
            leases=self.leases,
            sequence=self.sequence,
            style=self.execution,
            calling=self.calls,
            space=self.disk,
        )
