"""What is visible of an attribute: the quick look says what the judgements say."""

import random

from directory_steps import History

from holdfast.directory.attribute import AttributeState
from holdfast.directory.primitives import Value

VERBS = History().verbs


def judged(state: AttributeState, required: dict[bytes, Value]) -> tuple[Value, ...]:
    """The visible values as the judgements of all slots have them."""
    found = {each.value.key: each.value for _, each in state.judgements(required) if each.value is not None}
    return tuple(found[key] for key in sorted(found))


def test_the_quick_look_agrees_with_the_judgements() -> None:
    """For everything that masters come to hold when they change the same few entries at once."""
    looked = several = none = 0
    for seed in range(15):
        rng = random.Random(seed)
        history = History()
        history.run(
            [(rng.randrange(3), rng.randrange(VERBS), rng.randrange(8), rng.randrange(8)) for _ in range(80)]
        )
        for master in history.masters:
            for entry in master.state.entries.values():
                for name, state in entry.attributes.items():
                    for required in (entry.required().get(name, {}), {}):
                        found = state.visible(required)
                        assert found == judged(state, required)
                        looked, several, none = looked + 1, several + (len(found) > 1), none + (not found)
    assert min(looked, several, none) > 10
