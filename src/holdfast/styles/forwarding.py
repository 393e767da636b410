"""When a warm primary brings its backups forward, and by what (E5).

A backup that takes over replays what it was not brought past. So what counts is the time that the primary
spent on executing since, not the number of calls nor the wall clock; the interval only serves the quiet
group.
"""

import enum

from holdfast.styles.config import StyleConfig


class Step(enum.Enum):
    """What backups are brought forward by."""

    NOTHING = "nothing"
    UPDATE = "update"
    """What the class says has changed."""
    STATE = "state"
    """The whole state: small enough to send."""
    REPLAY = "replay"
    """They replay the same records: a large object that cannot tell its changes."""


def next_step(
    spent_ns: int,
    since_ns: int,
    *,
    state_bytes: int | None,
    is_updateable: bool,
    has_base: bool,
    config: StyleConfig,
) -> Step:
    """What to do now, after *spent_ns* of execution and *since_ns* on the clock since the last step.

    Half the budget is left for what is executed while the step is on its way. *state_bytes* is the size of
    the last state captured, None before the first. *has_base*: the last update or replay was the last time
    that the object was asked for its state or update; if not, its next update would lack what came before
    (FTC-307).
    """
    is_due = spent_ns * 2 >= config.replay_budget_ns or since_ns >= config.checkpoint_interval_ns
    if spent_ns == 0 or not is_due:
        return Step.NOTHING
    if is_updateable:
        return Step.UPDATE if has_base else Step.REPLAY
    if state_bytes is None or state_bytes <= config.sent_state_bytes_max:
        return Step.STATE
    return Step.REPLAY
