"""Tries out a class before it becomes a group, with operations made from its annotations.

Operations are executed as a member executes them. A second object executes the same operations, as a replay
does. A third object is restored from the state of a few operations ago, as in a restarted member. All must
give the same answers and have equal states. Every few operations the state is captured and read back.
"""

from holdfast.sim.exercise.explorer import Exercised, Found, TooSlow, Unfinished, exercise
from holdfast.sim.exercise.subject import CannotMake, Values

__all__ = ["CannotMake", "Exercised", "Found", "TooSlow", "Unfinished", "Values", "exercise"]
