"""The structured log, and the Trace port that writes to it."""

import sys
from typing import Any, Literal

import structlog
from structlog.typing import EventDict

from holdfast.machine.plain import plain


def log_to_stderr(least: Literal["debug", "info", "warning"]) -> None:
    """Write the process's structured log to standard error, as `key=value` lines that people can grep."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            _plainly,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


def _plainly(_: Any, __: str, event: EventDict) -> EventDict:
    """Reasons and names come from others, and the log is read on terminals."""
    return {name: plain(value) if isinstance(value, str) else value for name, value in event.items()}


class LogTrace:
    """Writes each note as one structured log line at debug level, with the process's own fields on it."""

    def __init__(self, **fields: object) -> None:
        self._log = structlog.get_logger().bind(**fields)

    def note(self, kind: str, **fields: object) -> None:
        if structlog.is_configured():  # otherwise nobody asked for a log, and standard output is not ours
            self._log.debug(kind, **fields)
