"""Going on from this host's copy of the context, when a person says so (T4).

The copy is logged as the next update, and the authority's record makes it the committed one: so whatever
interrupts this, the log is settled by the record as every other is.
"""

from collections.abc import Callable

from holdfast.authority.outcome import NoAnswer, answering
from holdfast.authority.recovering import Governed, Recovered, recover_context
from holdfast.authority.standing import Standing, read_standing
from holdfast.authority.transactions import next_cas
from holdfast.control.context import Context
from holdfast.control.ports import Accepted, Failed, Outcome, Tell, Unsettled
from holdfast.control.tenure import Self, Tenure
from holdfast.model.errors import Rejected, Unavailable


class Recovery(Tenure):
    """*tell* gets the outcome, then *leave* leads back to bootstrap, saying why."""

    def __init__(self, me: Self, body: bytes, tell: Tell, leave: Callable[[str], None]) -> None:
        super().__init__(me)
        self._body = body
        self._tell: Tell | None = tell
        self._leave = leave
        self._cas = 0

    def begin(self) -> None:
        self.me.archive.when_idle(self.still(self._survey))

    def close(self) -> None:
        super().close()
        self._say(Unsettled(self._cas))

    def _survey(self) -> None:
        self.ask(answering(read_standing)(), self._surveyed)

    def _surveyed(self, standing: Standing | NoAnswer) -> None:
        if isinstance(standing, NoAnswer):
            self._end(Failed(Unavailable("the authority does not answer; nothing was changed")))
        elif self.me.archive.log is not None:
            self._end(Failed(Rejected("an update is not settled here yet; nothing was changed")))
        else:
            self._cas = next_cas(standing)
            self.me.archive.keep_log(Context(self._cas, self._body), self.still(self._put_on_record))

    def _put_on_record(self) -> None:
        me, nonce = self.me, self.me.ports.nonce()
        self.insist(lambda: recover_context(me.host, me.incarnation, self._cas, nonce=nonce), self._answered)

    def _answered(self, answer: object) -> None:
        match answer:
            case Recovered(transaction=transaction):
                self._end(Accepted(transaction.cas, b""))
            case Governed(host=host):
                self._end(Failed(Rejected(f"{host} can coordinate the domain: nothing is to be recovered")))
            case _:
                self._end(Failed(Rejected(f"others came first, nothing was changed: {answer}")))

    def _end(self, outcome: Outcome) -> None:
        self._say(outcome)
        self._leave("the context was to be recovered")

    def _say(self, outcome: Outcome) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(outcome)
