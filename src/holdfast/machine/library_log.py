"""The structured log of code that also runs in users' programs: quiet, unless the program asked for one."""

from typing import Any

import structlog


class LibraryLog:
    """Writes through structlog once somebody has configured it. Unconfigured, structlog would print every
    line to standard output, which belongs to the user's program."""

    def __init__(self, name: str) -> None:
        self._log: Any = structlog.get_logger(name)

    def debug(self, event: str, **fields: object) -> None:
        if structlog.is_configured():
            self._log.debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        if structlog.is_configured():
            self._log.info(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """An error, with the exception that is being handled."""
        if structlog.is_configured():
            self._log.exception(event, **fields)
