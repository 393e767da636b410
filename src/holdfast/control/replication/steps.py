"""The steps of a plan for one group, applied to its record at the authority (T1, M5, M6).

The first change is made from exactly the record that was planned from, and each further one from the record
that the previous one left. If anybody else changes the record, the remaining steps are dropped and planned
again: they were planned on old data, or by a host that no longer coordinates. *Without it:* h1 is being
drained, and the group can do without it. While the plan waits for its turn, a person removes h2. The plan
removes h1 as well, and the group has one member too few.
"""

from collections.abc import Callable, Iterable

from holdfast.authority.groups import GroupRecord
from holdfast.authority.placement import add_member, forget_host, let_lead, remove_member, tune_group
from holdfast.authority.recipe import Recipe, Seen
from holdfast.control.replication.planner import Action, Forget, Lead, LetLead, Place, Tune
from holdfast.control.replication.spec import GroupFact
from holdfast.model.errors import invariant
from holdfast.model.ids import HostId, Nonce, Revision


def take_steps(
    group: GroupFact,
    actions: Iterable[Action],
    nonces: Callable[[], Nonce],
    criteria: Callable[[GroupRecord, HostId], str],
) -> Recipe[tuple[Action, ...]]:
    """Apply the actions one by one until one has no effect, and return those that were applied. *criteria*
    returns what the factory at a host is told (FTC-212)."""
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
        case Place(never_leads=never_leads):
            return add_member(
                group, host, nonce=nonce, as_of=as_of, criteria=criteria, never_leads=never_leads
            )
        case LetLead(never_leads=never_leads):
            return let_lead(group, host, never_leads=never_leads, nonce=nonce, as_of=as_of)
        case Forget():
            return forget_host(group, host, nonce=nonce, as_of=as_of)
        case Tune(tuned=tuned):
            return tune_group(group, tuned, nonce=nonce, as_of=as_of)
        case _:
            return remove_member(group, host, nonce=nonce, as_of=as_of)
