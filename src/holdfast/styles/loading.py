"""An object as of what its host keeps of it."""

from collections.abc import Callable, Iterator

from holdfast.model.errors import Overloaded, Unavailable
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.styles.definition import Definition
from holdfast.styles.execution import Execution
from holdfast.styles.succession import Succession


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


class Loading:
    """One member's object on its way from the newest checkpoint, bit by bit. *succession* says
    whether it may be loaded here."""

    def __init__(
        self, definition: Definition, newest: Callable[[], Kept | None], succession: Succession
    ) -> None:
        self._definition = definition
        self._newest = newest
        self._succession = succession
        self._work: Iterator[Execution | None] | None = None

    def go_on(self, *, leads: bool) -> Execution | None:
        """Do the next bit; the object when it was the last one. Raises ``Overloaded`` when it has to be begun
        anew, ``OtherCode``, and what :func:`loading` raises."""
        if self._work is None:
            self._succession.check_kept(leads=leads)
            self._work = loading(self._definition, self._newest)
        try:
            return next(self._work)
        except Unavailable as error:
            # Newer checkpoints took the place of the one that was being loaded.
            self._work = None
            raise Overloaded(str(error)) from None
        except BaseException:
            self._work = None  # it has ended with that, and is begun anew
            raise

    def forget(self) -> None:
        """What has been loaded so far is not wanted any more, or is there."""
        self._work = None
