"""Holdfast: fault tolerance for Python services.

A public name is loaded when it is first used: every process of a domain and every command imports this
package, and most of them call no group.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.calling.config import CallPolicy
    from holdfast.client.destination import Destination
    from holdfast.client.domain import connect
    from holdfast.client.source import Source, SourceRefused
    from holdfast.client.sync import connect_sync
    from holdfast.execution.capture import InvalidState, InvalidUpdate, NoStateAvailable, NoUpdateAvailable
    from holdfast.execution.context import NotOrdered, OutsideOperation, context
    from holdfast.execution.interface import BadCall, interleaved, query, slow
    from holdfast.execution.method import CannotAwait, NotAwaited
    from holdfast.execution.outputs import Output, OutputId
    from holdfast.execution.sends import OutboxFull
    from holdfast.execution.stored import Database, Stored
    from holdfast.execution.timers import BadSchedule, TooManyTimers
    from holdfast.model.calls import CallOutcomeUnknown, RequestId
    from holdfast.model.conversion import ResultDoesNotFit
    from holdfast.model.errors import (
        HoldfastError,
        InvalidRequest,
        NoSuchGroup,
        OutcomeUnknown,
        Overloaded,
        Rejected,
        Unavailable,
    )
    from holdfast.model.outcome import (
        CallCycle,
        CallPoisoned,
        CallRefused,
        MethodRaised,
        NestedNotExecuted,
        NestedOutcomeUnknown,
    )
    from holdfast.streams import policies
    from holdfast.streams.actions import Action, Drop, Ignore, Recover, Suspend
    from holdfast.streams.collecting import OutputGap
    from holdfast.streams.config import StreamSettings
    from holdfast.streams.gaps import Gap, GapDetector
    from holdfast.streams.handlers import Notice
    from holdfast.streams.information import LossInfo
    from holdfast.streams.message import StreamMessage
    from holdfast.streams.priorities import Lost

__version__ = "0.1.0"

__all__ = [
    "Action",
    "BadCall",
    "BadSchedule",
    "CallCycle",
    "CallOutcomeUnknown",
    "CallPoisoned",
    "CallPolicy",
    "CallRefused",
    "CannotAwait",
    "Database",
    "Destination",
    "Drop",
    "Gap",
    "GapDetector",
    "HoldfastError",
    "Ignore",
    "InvalidRequest",
    "InvalidState",
    "InvalidUpdate",
    "LossInfo",
    "Lost",
    "MethodRaised",
    "NestedNotExecuted",
    "NestedOutcomeUnknown",
    "NoStateAvailable",
    "NoSuchGroup",
    "NoUpdateAvailable",
    "NotAwaited",
    "NotOrdered",
    "Notice",
    "OutboxFull",
    "OutcomeUnknown",
    "Output",
    "OutputGap",
    "OutputId",
    "OutsideOperation",
    "Overloaded",
    "Recover",
    "Rejected",
    "RequestId",
    "ResultDoesNotFit",
    "Source",
    "SourceRefused",
    "Stored",
    "StreamMessage",
    "StreamSettings",
    "Suspend",
    "TooManyTimers",
    "Unavailable",
    "__version__",
    "connect",
    "connect_sync",
    "context",
    "interleaved",
    "policies",
    "query",
    "slow",
]

_HOMES: Final = {
    "holdfast.calling.config": "CallPolicy",
    "holdfast.client.destination": "Destination",
    "holdfast.client.domain": "connect",
    "holdfast.client.source": "Source SourceRefused",
    "holdfast.client.sync": "connect_sync",
    "holdfast.execution.capture": "InvalidState InvalidUpdate NoStateAvailable NoUpdateAvailable",
    "holdfast.execution.context": "NotOrdered OutsideOperation context",
    "holdfast.execution.interface": "BadCall interleaved query slow",
    "holdfast.execution.method": "CannotAwait NotAwaited",
    "holdfast.execution.outputs": "Output OutputId",
    "holdfast.execution.sends": "OutboxFull",
    "holdfast.execution.stored": "Database Stored",
    "holdfast.execution.timers": "BadSchedule TooManyTimers",
    "holdfast.model.calls": "CallOutcomeUnknown RequestId",
    "holdfast.model.conversion": "ResultDoesNotFit",
    "holdfast.model.errors": (
        "HoldfastError InvalidRequest NoSuchGroup OutcomeUnknown Overloaded Rejected Unavailable"
    ),
    "holdfast.model.outcome": (
        "CallCycle CallPoisoned CallRefused MethodRaised NestedNotExecuted NestedOutcomeUnknown"
    ),
    "holdfast.streams.actions": "Action Drop Ignore Recover Suspend",
    "holdfast.streams.collecting": "OutputGap",
    "holdfast.streams.config": "StreamSettings",
    "holdfast.streams.gaps": "Gap GapDetector",
    "holdfast.streams.handlers": "Notice",
    "holdfast.streams.information": "LossInfo",
    "holdfast.streams.message": "StreamMessage",
    "holdfast.streams.policies": "policies",
    "holdfast.streams.priorities": "Lost",
}
"""The modules that define the public names, or are them. Type checkers read the imports above."""
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # to a type checker a name that does not exist is a mistake

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        module = import_module(home)
        found = globals()[name] = getattr(module, name, module)
        return found


def __dir__() -> list[str]:
    return __all__
