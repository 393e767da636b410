"""Holdfast: fault tolerance for Python services."""

from holdfast.calling.config import CallPolicy
from holdfast.client.domain import connect
from holdfast.client.sync import connect_sync
from holdfast.model.calls import CallOutcomeUnknown, RequestId
from holdfast.model.errors import (
    HoldfastError,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    Rejected,
    Unavailable,
)
from holdfast.model.fitting import ResultDoesNotFit
from holdfast.model.outcome import CallCycle, CallPoisoned, CallRefused, MethodRaised, NestedOutcomeUnknown
from holdfast.styles.context import context
from holdfast.styles.interface import query

__version__ = "0.1.0"

__all__ = [
    "CallCycle",
    "CallOutcomeUnknown",
    "CallPoisoned",
    "CallPolicy",
    "CallRefused",
    "HoldfastError",
    "InvalidRequest",
    "MethodRaised",
    "NestedOutcomeUnknown",
    "OutcomeUnknown",
    "Overloaded",
    "Rejected",
    "RequestId",
    "ResultDoesNotFit",
    "Unavailable",
    "__version__",
    "connect",
    "connect_sync",
    "context",
    "query",
]
