"""Bugs that resolution could have, put in on purpose: the judge of random histories finds each of them."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from directory_judge import judged
from directory_steps import History, Step
from msgspec import structs

from holdfast.directory import attribute, issuing, purging, slot
from holdfast.directory.attribute import AttributeState, Judgement
from holdfast.directory.entry import EntryState
from holdfast.directory.resolving import DirectoryState, resolve
from holdfast.directory.seen import NOTHING
from holdfast.directory.slot import Slot
from holdfast.directory.tree import Tree

SEEDS = 400
"""Enough for all but the rarest of them; most need a handful."""


def last_arrival_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slot, "_csn", lambda write: 0)


def delete_beats_younger_changes(patch: pytest.MonkeyPatch) -> None:
    whole = EntryState.unseen_by_removal

    def older(entry: EntryState) -> Iterator[Any]:
        removed = entry.removal
        return (each for each in whole(entry) if removed and each[2].csn < removed.csn)

    patch.setattr(EntryState, "unseen_by_removal", older)


def glue_stays_for_ever(patch: pytest.MonkeyPatch) -> None:
    hide = Tree._hide

    def sticky(tree: Tree, entry: Any) -> None:
        parent = tree._nodes[entry].parent
        hide(tree, entry)
        if parent in tree._nodes:
            tree._nodes[parent].visible_children += 1

    patch.setattr(Tree, "_hide", sticky)


def name_is_not_given_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tree, "_release", lambda tree, claim, entry: None)


def glue_takes_the_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tree, "_rank", lambda tree, entry: (tree._nodes[entry].facts.named, entry))


def purge_forgets_a_removal_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(purging, "is_gone", lambda slot, disputed, horizon: not slot.winner.wish.is_present)


def purge_drops_what_lost(patch: pytest.MonkeyPatch) -> None:
    purged = purging.purged_entry

    def winners_only(entry: EntryState, horizon: Any) -> EntryState:
        entry = purged(entry, horizon)
        return structs.replace(entry, name=Slot(entry.name.heads[-1:], entry.name.known))

    patch.setattr(purging, "purged_entry", winners_only)


def purge_drops_a_tombstone_with_children(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        purging, "is_over", lambda entry, horizon: entry.removal is not None and entry.removal.csn <= horizon
    )


def purge_forgets_who_knew_of_a_removal(patch: pytest.MonkeyPatch) -> None:
    forgetful = purging._forgetful
    none = AttributeState().removal
    patch.setattr(purging, "_forgetful", lambda slot, horizon, removal: forgetful(slot, horizon, none))


def purge_goes_on_with_what_it_read(patch: pytest.MonkeyPatch) -> None:
    """Before a change came that it then overwrites."""

    def walk_of(state: DirectoryState) -> purging.Walk:
        read = sorted(state.entries.items())
        return lambda after: iter([entry for each, entry in read if after is None or each > after])

    patch.setattr(purging, "_walk_of", walk_of)


def cycle_is_broken_by_arrival(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tree, "_placed", lambda tree, entry: list(tree._nodes).index(entry))


def conflict_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(attribute, "losers", lambda slot, outcome, came: iter(()))


def lost_removal_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AttributeState, "lost_removals", lambda state, slot: ())


def value_added_again_is_lost(patch: pytest.MonkeyPatch) -> None:
    written = AttributeState.written

    def once(state: AttributeState, key: bytes, write: Any, seen: Any) -> AttributeState:
        known = state.values.get(key)
        is_removed = known is not None and known.heads and not known.heads[-1].wish.is_present
        return state if is_removed else written(state, key, write, seen)

    patch.setattr(AttributeState, "written", once)


def removal_forgets_what_it_had_seen(patch: pytest.MonkeyPatch) -> None:
    removed_by = AttributeState.removed_by
    patch.setattr(AttributeState, "removed_by", lambda state, csn, seen: removed_by(state, csn, NOTHING))


def value_of_the_name_is_removed(patch: pytest.MonkeyPatch) -> None:
    judge = AttributeState.judged

    def unprotected(state: AttributeState, key: bytes, required: Any = None) -> Judgement:
        return judge(state, key)

    patch.setattr(AttributeState, "judged", unprotected)


def issuer_hides_what_it_purged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(issuing.Operation, "_within", lambda operation, seen: seen)


def repeated_change_comes_back_after_purging(patch: pytest.MonkeyPatch) -> None:
    def anyway(state: DirectoryState, change: Any) -> EntryState:
        entry = resolve(state.entries.get(change.entry) or EntryState(change.entry), change)
        state.entries[entry.id] = entry
        return entry

    patch.setattr(DirectoryState, "apply", anyway)


def purge_forgets_moves_away(patch: pytest.MonkeyPatch) -> None:
    apply = DirectoryState.apply

    def forgetful(state: DirectoryState, change: Any) -> EntryState:
        entry = apply(state, change)
        state.left.clear()
        return entry

    patch.setattr(DirectoryState, "apply", forgetful)


def purge_does_not_wait_for_what_is_on_its_way(patch: pytest.MonkeyPatch) -> None:
    """What G7 forbids: all have it by now, but not all had it when they issued what is still to come."""

    def is_known(history: History, master: Any, csn: Any) -> bool:
        older = {each.csn for each in history.issued if each.csn.timestamp <= csn.timestamp}
        is_new = csn.timestamp >= master.state.horizon.timestamp
        return is_new and all(older <= each.known.keys() for each in history.masters)

    patch.setattr(History, "is_stable", is_known)


BUGS: list[Callable[[pytest.MonkeyPatch], None]] = [
    last_arrival_wins,
    delete_beats_younger_changes,
    glue_stays_for_ever,
    name_is_not_given_back,
    glue_takes_the_name,
    purge_forgets_a_removal_too_early,
    purge_drops_what_lost,
    purge_drops_a_tombstone_with_children,
    purge_forgets_who_knew_of_a_removal,
    purge_goes_on_with_what_it_read,
    cycle_is_broken_by_arrival,
    conflict_is_not_recorded,
    lost_removal_is_not_recorded,
    value_added_again_is_lost,
    removal_forgets_what_it_had_seen,
    value_of_the_name_is_removed,
    issuer_hides_what_it_purged,
    repeated_change_comes_back_after_purging,
    purge_forgets_moves_away,
    purge_does_not_wait_for_what_is_on_its_way,
]


FOUND_BY = {
    glue_takes_the_name: 29,
    purge_forgets_who_knew_of_a_removal: 205,
    cycle_is_broken_by_arrival: 80,
    value_of_the_name_is_removed: 20,
    purge_forgets_moves_away: 529,
    purge_does_not_wait_for_what_is_on_its_way: 2103,
}
"""Where to look first for those that few histories show. When histories change, look for new ones."""


def steps(rng: random.Random, verbs: int) -> list[Step]:
    return [
        (rng.randrange(3), rng.randrange(verbs), rng.randrange(8), rng.randrange(8))
        for _ in range(rng.randrange(10, 60))
    ]


def is_found(seed: int) -> bool:
    """Whether the history of *seed* shows the bug: to a checker, or by breaking down."""
    rng = random.Random(seed)
    history = History()
    try:
        history.run(steps(rng, history.verbs))
        judged(history, seed)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_the_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        assert any(is_found(seed) for seed in (FOUND_BY.get(plant, 0), *range(SEEDS))), (
            f"{plant.__name__} went unnoticed"
        )
