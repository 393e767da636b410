"""A group's own options: what one group may have otherwise than its host's settings say.

Each is a property (:mod:`.properties`) of Holdfast's own, set for the domain, a class, at a group's creation
or while it runs, and stands for one field of the settings. This table is their one home: who checks, shows,
stores and applies them reads it. `docs/internals/a-setting.md` walks through adding one.
"""

from dataclasses import dataclass
from typing import Final, Literal

from holdfast.model.ids import MILLISECOND

PREFIX: Final = "holdfast."
KIB: Final = 1 << 10
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Option:
    """One option; its value is a whole number."""

    name: str
    section: Literal["execution", "sequence"]
    field: str
    """The field of that section of the settings."""
    least: int
    most: int
    about: str
    times: int = 1
    """What one of its units is in the field."""

    @property
    def property_name(self) -> str:
        return f"{PREFIX}{self.name}"

    def field_value(self, value: int) -> int:
        """The field's value; a time of nothing is the next moment."""
        return max(1, value * self.times)


OPTIONS: Final = (
    Option(
        "CheckpointBytes",
        "execution",
        "checkpoint_bytes",
        64 * KIB,
        24 * MIB,
        "A checkpoint is also due when the records since the last one have this many bytes. Fewer: less to "
        "replay and to send to a member that comes back, but more captures.",
    ),
    Option(
        "LogBytesMax",
        "execution",
        "log_bytes_max",
        1 * MIB,
        80 * MIB,
        "How much log is kept for the group at most; beyond it calls are refused until a checkpoint lets the "
        "log be cut.",
    ),
    Option(
        "NotifyMilliseconds",
        "sequence",
        "notify_ns",
        0,
        10_000,
        "How soon backups hear of a commit if no other records follow. 0: at once, for one more message to "
        "each backup and commit. It is how old the answers of backups may be, and how late active members "
        "execute.",
        times=MILLISECOND,
    ),
)
BY_NAME: Final = {each.property_name: each for each in OPTIONS}
