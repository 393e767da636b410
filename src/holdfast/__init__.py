"""Holdfast: fault tolerance for Python services."""

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
