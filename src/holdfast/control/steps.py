"""A plan's steps for one group, as changes of its record at the authority (T1, M5, M6).

The first is made from exactly the record that was planned from, each other one from the record that the one
before has left. Whoever else changes the record ends them: what is left was planned on an old picture, or by
a host that does not coordinate any more, and is planned anew.
*Without it:* h1 is being emptied, and the group can do without it; while the plan waits for its turn a person
takes h2 away; the plan removes h1 as well, and one member fewer is left than was wished for.
"""

from collections.abc import Callable, Iterable

from holdfast.authority.groups import GroupRecord
from holdfast.authority.outcome import Seen
from holdfast.authority.placing import add_member, forget_host, remove_member, tune_group
from holdfast.authority.recipe import Recipe
from holdfast.control.planning import Action, Forget, Lead, Place, Tune
from holdfast.control.wishes import GroupFact
from holdfast.model.errors import invariant
from holdfast.model.ids import HostId, Nonce, Revision


def take_steps(
    group: GroupFact,
    actions: Iterable[Action],
    nonces: Callable[[], Nonce],
    criteria: Callable[[GroupRecord, HostId], str],
) -> Recipe[tuple[Action, ...]]:
    """Take them one by one until one comes to nothing; those that were taken. *criteria*: what the factory
    at a host is told (FTC-212)."""
    as_of = group.as_of
    taken: list[Action] = []
    for action in actions:
        told = criteria(group.record, action.host) if isinstance(action, Place) else ""
        done = yield from _step(action, as_of, nonces(), told)
        if not isinstance(done, Seen):
            break
        as_of = done.modified
        taken.append(action)
    return tuple(taken)


def _step(action: Action, as_of: Revision, nonce: Nonce, criteria: str) -> Recipe[object]:
    invariant(not isinstance(action, Lead), "who is primary is not said by the record")
    group, host = action.group, action.host
    match action:
        case Place():
            return add_member(group, host, nonce=nonce, as_of=as_of, criteria=criteria)
        case Forget():
            return forget_host(group, host, nonce=nonce, as_of=as_of)
        case Tune(tuned=tuned):
            return tune_group(group, tuned, nonce=nonce, as_of=as_of)
        case _:
            return remove_member(group, host, nonce=nonce, as_of=as_of)
