"""The record of what admins do: one line in the host's log for each action, done or refused, at any door."""

import re
from typing import Final

import structlog

log = structlog.get_logger("holdfast.audit")

_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


def write_down(action: str, *, door: str, by: str, peer: str, how: str, **about: str) -> None:
    """Write that *by*, connected from *peer*, took *action* through *door*. Names in *about* are
    percent-encoded, as in a path; *how* is ``done`` or the code of the refusal."""
    log.info("audit", action=action, door=door, by=by, peer=peer, how=how, **about)


def action_of(order: object) -> str:
    """The name of an order's action: ``create_group`` for a ``CreateGroup``."""
    return _CAPITAL.sub("_", type(order).__name__).lower()
