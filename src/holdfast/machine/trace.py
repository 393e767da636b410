"""The structured log, and the Trace ports that write to it.

:class:`LogTrace` writes what cores note to the log. :class:`CountingTrace` also counts the notes, because
operators set alerts on them. :class:`LibraryLog` serves code that also runs in users' programs and stays
silent unless the program has configured a log.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

import structlog
from structlog.typing import EventDict

from holdfast.machine.terminal_text import plain
from holdfast.model.ports import Trace


def log_to_stderr(least: Literal["debug", "info", "warning"]) -> None:
    """Write the process's structured log to standard error, as `key=value` lines that people can grep."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            _escape_values,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


def _escape_values(_: Any, __: str, event: EventDict) -> EventDict:
    """Make the values safe: reasons and names come from others, and the log is read on terminals."""
    return {name: plain(value) if isinstance(value, str) else value for name, value in event.items()}


class LogTrace:
    """Writes each note as one structured log line at debug level, with the process's own fields."""

    def __init__(self, **fields: object) -> None:
        self._log = structlog.get_logger().bind(**fields)

    def note(self, kind: str, **fields: object) -> None:
        # otherwise nobody asked for a log, and standard output belongs to the program
        if structlog.is_configured():
            self._log.debug(kind, **fields)


Listener = Callable[[str, Mapping[str, object]], None]
"""Called with the kind and the fields of each note."""


class CountingTrace:
    """Passes every note on to *trace* and counts it by its kind. Cores have a fixed set of kinds."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.counts: dict[str, int] = {}
        self.listeners: list[Listener] = []

    def note(self, kind: str, **fields: object) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._trace.note(kind, **fields)
        for listener in self.listeners:
            listener(kind, fields)


class LibraryLog:
    """Writes through structlog once it is configured.

    Unconfigured, structlog would print every line to standard output, which belongs to the user's program.
    """

    def __init__(self, name: str) -> None:
        self._log: Any = structlog.get_logger(name)

    def debug(self, event: str, **fields: object) -> None:
        if structlog.is_configured():
            self._log.debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if structlog.is_configured():
            self._log.info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        if structlog.is_configured():
            self._log.warning(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the exception that is being handled."""
        if structlog.is_configured():
            self._log.exception(event, **fields)
