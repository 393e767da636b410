"""Running what a class brings of its own besides its methods: its module, ``__init__``, ``get_state``.

Such code may fail in any way, and must not take a host with it. ``sys.exit`` in it is a failure like others.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from holdfast.model.errors import EndsProcess
from holdfast.model.outcome import text_of

P = ParamSpec("P")
R = TypeVar("R")


class OwnCodeLeft(Exception):
    """Raised in place of what is no ``Exception``: ``SystemExit``, ``KeyboardInterrupt`` and their like."""


def run_own(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """What *work* returns. Raises an ``Exception``, whatever *work* raises."""
    try:
        return work(*args, **kwargs)
    except (Exception, EndsProcess):
        raise
    except BaseException as error:
        raise OwnCodeLeft(f"{type(error).__name__}: {text_of(error)}") from error
