"""A class tried out before it is a group: operations made of its annotations, and what its object becomes.

Operations are executed as a member executes them. Beside the object there is a second one that executes the
same, as a replay does, and one that was made of the state as it was a few operations ago, as a restarted
member is: all of them must answer alike, and their states be equal. Every few operations the state is
captured and read back.
"""

from holdfast.sim.exercise.explorer import Exercised, Found, TooSlow, Unfinished, exercise
from holdfast.sim.exercise.subject import CannotMake, Values

__all__ = ["CannotMake", "Exercised", "Found", "TooSlow", "Unfinished", "Values", "exercise"]
