"""An object as of what its host keeps of it."""

from collections.abc import Callable, Iterator

from holdfast.sequence.ports import Kept, chunks_of
from holdfast.styles.definition import Definition
from holdfast.styles.execution import Execution


def loading(definition: Definition, newest: Callable[[], Kept | None]) -> Iterator[Execution | None]:
    """None after each bit of work, and at last the object; as at creation, if nothing is kept. The *newest*
    state is asked for when the work begins: an older one may be gone by then. Raises what ``set_state``
    raises, and ``Unavailable`` when newer ones have taken its place since."""
    kept = newest()
    if kept is None:
        yield Execution(definition)
        return
    for execution in Execution.loading(definition, chunks_of(kept)):
        if execution is not None:
            execution.go_on()
        yield execution
