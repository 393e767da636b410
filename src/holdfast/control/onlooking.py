"""An onlooker: a host that takes no part, because enough others do, and knows who coordinates all the same.

It holds the coordinator's context in memory, a little late, so that it can be read at every host. It keeps
none of it and is elected by nobody (T3). When a place among the participants falls free it takes part.
"""

from collections.abc import Callable

from holdfast.authority.outcome import NoAnswer, answering
from holdfast.authority.standing import Participant, Standing, read_standing
from holdfast.control.messages import Hello, Message, Same, Whole
from holdfast.control.participants import shall_take_part
from holdfast.control.tenure import Self, Tenure
from holdfast.model.ids import Term


class Onlooker(Tenure):
    """*leave* leads back to bootstrap, saying why."""

    def __init__(
        self,
        me: Self,
        term: Term,
        coordinator: Participant,
        leave: Callable[[str], None],
    ) -> None:
        super().__init__(me)
        self.term = term
        self.coordinator = coordinator
        self.context = me.archive.context
        """The coordinator's, as far as it was heard."""
        self._is_heard = False
        self._leave = leave

    def begin(self) -> None:
        self.look()
        self.later(self.me.config.poll_ns, self._poll)

    def look(self) -> None:
        """Ask for what is new."""
        hello = Hello(self.term, self.context.cas, self.context.digest)
        self.me.ports.network.send(self.coordinator.host, hello)

    def on_message(self, message: Message) -> None:
        """From the coordinator, of this term."""
        match message:
            case Whole(context=context) if context.cas > self.context.cas or not self._is_heard:
                self._is_heard = True
                self.context = context
                self.me.application.on_context(context)
            case Same():
                self._is_heard = True
            case _:
                pass

    def _poll(self) -> None:
        self.ask(answering(read_standing)(), self._polled)
        self.later(self.me.config.poll_ns, self._poll)

    def _polled(self, standing: Standing | NoAnswer) -> None:
        if isinstance(standing, NoAnswer):
            return
        mine, coordinator = standing.member(self.me.host), standing.coordinator()
        held, wanted = self.me.archive.context.cas, self.me.config.participants
        if mine is None or mine.value.incarnation != self.me.incarnation:
            self._leave("it is no member any more")
        elif standing.current_term != self.term or coordinator is None:
            self._leave(f"the term is {standing.current_term}")
        elif shall_take_part(standing, self.me.host, held, wanted):
            self._leave("it shall take part")
        else:
            self.look()
