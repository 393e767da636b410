"""The settings of a host's door for streams."""

from pathlib import Path
from typing import Final

from holdfast.model.ids import MILLISECOND
from holdfast.streams.pacing import CreditConfig

LOG_BYTES_MIN: Final = 1 << 20


class StreamsConfig(CreditConfig, frozen=True, kw_only=True):
    """How far sources may go ahead of the groups that take their streams, and where messages are recorded."""

    window: int = 16_384
    """How many messages beyond the last one delivered a source may send. More let a fast source run while
    the group decides or changes its leader; each takes memory at every member."""
    interval_ns: int = 50 * MILLISECOND
    """How often a member says how far it is, if nothing else makes it."""
    message_log: str = ""
    """Where this host records the messages that it receives, and looks for those that a group has lost
    (`recover_from` has `log`). A directory, which hosts may share; or `module:Class`, a message log of your
    own. Empty: nowhere, and nothing is written."""
    message_log_bytes: int = 256 << 20
    """How much this host records in such a directory before its oldest files go."""

    def validate(self) -> list[tuple[str, str]]:
        problems = super().validate()
        if self.message_log and not is_plug_in(self.message_log) and not Path(self.message_log).is_absolute():
            problems.append(("message_log", "must be the whole path of a directory, or module:Class"))
        if self.message_log_bytes < LOG_BYTES_MIN:
            problems.append(("message_log_bytes", "must be 1 MiB at least"))
        return problems


def is_plug_in(name: str) -> bool:
    """Whether that is a class, and no directory."""
    module, colon, cls = name.partition(":")
    return bool(colon) and cls.isidentifier() and all(each.isidentifier() for each in module.split("."))
