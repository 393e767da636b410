"""The structured log, and the Trace ports that write to it.

:class:`LogTrace` writes what cores note to the log. :class:`CountingTrace` also counts the notes, because
operators set alerts on them. :class:`LibraryLog` serves code that also runs in users' programs and stays
silent unless the program has configured a log.

structlog is imported by whoever configures it, and by nobody else: a client is installed without it, and its
import takes longer than that of all the rest.
"""

import io
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, Literal, TextIO, cast

from msgspec import Struct

from holdfast.machine.terminal_text import plain
from holdfast.model.ports import Trace
from holdfast.model.validation import Problem


class OutputConfig(Struct, frozen=True, kw_only=True):
    """What the processes of a domain write to their standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least of what is written. `debug` has every step of the protocol: megabytes a minute."""
    form: Literal["logfmt", "json"] = "logfmt"
    """`logfmt` is for people and grep: `key=value` pairs on one line; `json` is an object on each line, for
    programs that collect logs."""

    def validate(self) -> list[Problem]:
        return []


def log_to_stderr(
    least: Literal["debug", "info", "warning", "error"], form: Literal["logfmt", "json"] = "logfmt"
) -> None:
    """Write the process's structured log to standard error, one line for each event."""
    with _without(*COLOURED):
        import structlog

    renderer: Any = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            *([] if form == "json" else [_escape_values]),
            structlog.processors.JSONRenderer(default=str) if form == "json" else renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, least.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, LossyStream(sys.stderr))),
    )


COLOURED: Final = ("rich", "rich.traceback")
"""What structlog loads where it can, for tracebacks in colour on a developer's terminal. With what that loads
in turn it takes longer than structlog itself, in every process of a domain, and nothing here shows any."""


@contextmanager
def _without(*modules: str) -> Iterator[None]:
    """Let imports of these modules fail, unless they are loaded already."""
    hidden = [each for each in modules if each not in sys.modules]
    for each in hidden:
        sys.modules[each] = None  # type: ignore[assignment]  # that is how an import is told to fail at once
    try:
        yield
    finally:
        for each in hidden:
            del sys.modules[each]


class LossyStream(io.TextIOBase):
    """Writes lines to *file* as far as that is possible, and says later how many it could not write.

    *Without it:* the disk that holds the logs is full. Whoever has something to say fails for that alone: the
    task that keeps a host's session, or its link to the authority, ends, and the host lives on without it.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lost = 0

    def write(self, text: str) -> int:
        try:
            if self._lost:
                self._file.write(f"{self._lost} lines could not be written to this log\n")
                self._file.flush()
                self._lost = 0
            self._file.write(text)
            self._file.flush()
        except OSError:
            self._lost += 1
        return len(text)

    def flush(self) -> None:
        return None  # every line was flushed


def _escape_values(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Make the values safe: reasons and names come from others, and the log is read on terminals."""
    return {name: plain(value) if isinstance(value, str) else value for name, value in event.items()}


class LibraryLog:
    """Writes through structlog once the program has configured it.

    Unconfigured, structlog would print every line to standard output, which belongs to the user's program.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: Any = None

    @property
    def is_heard(self) -> bool:
        """Whether the program has configured a log."""
        return self._log() is not None

    def debug(self, event: str, **fields: object) -> None:
        if (log := self._log()) is not None:
            log.debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if (log := self._log()) is not None:
            log.info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        if (log := self._log()) is not None:
            log.warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        if (log := self._log()) is not None:
            log.error(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the exception that is being handled."""
        if (log := self._log()) is not None:
            log.exception(event, **fields)

    def _log(self) -> Any:
        structlog = _configured()
        if structlog is not None and self._found is None:
            self._found = structlog.get_logger(self._name)
        return self._found if structlog is not None else None


def _configured() -> Any:
    """The module structlog, if the program has configured a log with it."""
    structlog = sys.modules.get("structlog")
    return structlog if structlog is not None and structlog.is_configured() else None


class LogTrace:
    """Writes each note as one structured log line at debug level, with the process's own fields."""

    def __init__(self, **fields: object) -> None:
        self._fields = fields
        self._bound: Any = None

    def note(self, kind: str, **fields: object) -> None:
        structlog = _configured()
        if structlog is None:
            return  # nobody asked for a log, and standard output belongs to the program
        if self._bound is None:
            self._bound = structlog.get_logger().bind(**self._fields)
        self._bound.debug(kind, **fields)


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
