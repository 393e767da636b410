"""How large an object's state is, at a glance: without encoding it, and in bounded time."""

from collections import deque
from typing import Any, Final

GLANCES_MAX: Final = 2_000
"""Values looked at: some tenths of a millisecond."""
ITEM_BYTES: Final = 8
"""What one item of a container takes in a state, or more."""


def weighs_over(instance: object, limit: int) -> bool:
    """Whether the attributes of *instance* surely take more than *limit* bytes as a state.

    Containers are counted by their length, and a few of each one's items are looked into. False may be wrong
    for an object whose bulk lies deep: who captures such a one learns its size then.
    """
    weight, glances = 0, 0
    waiting: deque[Any] = deque([getattr(instance, "__dict__", {})])
    waiting.extend(getattr(instance, name, None) for name in _slots(type(instance)))
    while waiting and glances < GLANCES_MAX:
        value = waiting.popleft()
        glances += 1
        if isinstance(value, str | bytes | bytearray):
            weight += len(value)
        elif isinstance(value, dict | list | tuple | set | frozenset | deque):
            weight += len(value) * ITEM_BYTES
            room = GLANCES_MAX - len(waiting)
            inner = value.values() if isinstance(value, dict) else value
            waiting.extend(each for each, _ in zip(inner, range(room), strict=False))
        elif hasattr(value, "__dict__"):
            waiting.append(vars(value))
        else:
            waiting.extend(getattr(value, name, None) for name in _slots(type(value)))
        if weight > limit:
            return True
    return False


def _slots(cls: type) -> list[str]:
    found: list[str] = []
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found.extend((slots,) if isinstance(slots, str) else slots)
    return [name for name in found if name not in ("__dict__", "__weakref__")]
