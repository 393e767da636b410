"""What a member holds, as it tells those who ask: claimants, and people who think of a forced recovery."""

from holdfast.authority.views import View
from holdfast.sequence.footing import Footing
from holdfast.sequence.messages import Compared, Held
from holdfast.sequence.role import Role
from holdfast.sequence.standing import find
from holdfast.storage.record import ORIGIN


def compared(on: Footing) -> Compared:
    """For a claimant, which must not hold less (V5, D2)."""
    return Compared(on.group, on.epoch, on.me.store, on.store.tail, on.committed, on.is_doubtful)


def held(on: Footing, number: int, role: Role, *, is_serving: bool) -> Held:
    """For who inspects the group; *number* is the question's."""
    epoch, fitness = max(on.epoch, on.store.followed), on.application.fitness()
    return Held(
        on.group,
        epoch,
        number,
        on.me,
        on.store.tail,
        on.committed,
        on.is_doubtful,
        role.value,
        is_serving,
        int(fitness.rank),
        fitness.why,
        fitness.since_ns,
        on.application.is_ready,
    )


def is_of_another_generation(on: Footing, view: View) -> bool:
    """Whether what is held is no part of the history that *view* stands for (V4).

    Who has followed an epoch of the generation holds its history; who holds nothing can learn it.
    """
    is_empty = on.store.tail == ORIGIN and on.store.followed == ORIGIN.epoch
    is_listed = find(view.members, on.me) is not None
    return on.store.followed < view.generation and not is_listed and not is_empty
