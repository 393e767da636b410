"""What is wrong with replies: they do not fit their annotation, are in another order, or lack a call."""

from typing import Any, Final

import msgspec

from holdfast.model.calls import RequestId
from holdfast.model.fitting import ResultDoesNotFit, fitted
from holdfast.model.ids import ClientId, GroupId
from holdfast.model.outcome import Raised, Returned, decode_outcome, recorded_name, text_of
from holdfast.styles.annotations import misfit, named
from holdfast.styles.interface import Operation
from holdfast.styles.sameness import in_short
from holdfast.styles.stepping import NotAwaited

_NOBODY: Final = RequestId(GroupId(0), ClientId(""), 0, 0)
_NOT_AWAITED: Final = recorded_name(NotAwaited)


def why_no_result(operation: Operation, outcome: bytes) -> str:
    """Why a caller who has the class would not get what the method returned; empty, if it does."""
    found = decode_outcome(outcome)
    if not isinstance(found, Returned) or operation.returns is Any:
        return ""
    why = _why_not(found.value, operation.returns)
    if not why:
        return ""
    part = misfit(found.value, operation.returns, _why_not, why)
    return (
        f"{operation.name} says that it returns {named(operation.returns)}, and its result{part.path} "
        f"is {type(part.value).__name__} {in_short(part.value)}, which does not fit ({part.why})"
    )


def why_not_awaited(outcome: bytes) -> str:
    """Which call to another group was not made; empty, if there is none."""
    match decode_outcome(outcome):
        case Raised(type_name=name, text=text) if name == _NOT_AWAITED:
            return text
    return ""


def are_same_but_for_order(ones: list[bytes], others: list[bytes]) -> bool:
    """Whether replies differ only in the order of items."""
    return len(ones) == len(others) and all(
        _without_order(decode_outcome(one)) == _without_order(decode_outcome(other))
        for one, other in zip(ones, others, strict=True)
    )


def _without_order(found: Any) -> Any:
    """Equal for what has the same parts; of a text, the same letters."""
    if isinstance(found, Returned | Raised):
        return [
            type(found).__name__,
            *(_without_order(getattr(found, name)) for name in found.__struct_fields__),
        ]
    if isinstance(found, list | tuple):
        return sorted(msgspec.msgpack.encode(_without_order(each)) for each in found)
    if isinstance(found, dict):
        return sorted(
            msgspec.msgpack.encode((_without_order(key), _without_order(each))) for key, each in found.items()
        )
    return sorted(found) if isinstance(found, str) else found


def _why_not(value: Any, returns: Any) -> str:
    try:
        fitted(value, returns, "", _NOBODY)
    except ResultDoesNotFit as error:
        cause = error.__cause__ or error
        return text_of(cause) or type(cause).__name__
    return ""
