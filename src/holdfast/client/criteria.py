"""Criteria, on their way to a factory."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from holdfast.model.errors import InvalidRequest

NONE: Final[Mapping[str, Any]] = MappingProxyType({})


def encoded(criteria: Mapping[str, Any]) -> str:
    """Raises ``InvalidRequest`` for what has no form in JSON."""
    try:
        return msgspec.json.encode(dict(criteria)).decode()
    except (TypeError, OverflowError, RecursionError) as error:
        raise InvalidRequest(f"criteria have no form in JSON: {error}") from None
