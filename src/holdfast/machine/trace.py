"""The structured log as a Trace port."""

import structlog


class LogTrace:
    """Writes each note as one structured log line at debug level, with the process's own fields on it."""

    def __init__(self, **fields: object) -> None:
        self._log = structlog.get_logger().bind(**fields)

    def note(self, kind: str, **fields: object) -> None:
        self._log.debug(kind, **fields)
