"""What reaches a member before the authority has told it who won a claim (K1).

A claimant sends the others, with its claim, the first Submit of the epoch that it would win. Each of them
keeps it until it learns of a view, which it usually does when the claimant does. If that is the view which
was claimed, the Submit counts as if it came then; any other view ends it.

So what the others answer can reach the claimant before the authority's own answer does. The claimant keeps
it, and hears it as primary if it has won. If another has won, that one's Submit may be here already: it waits
for this member to accept it.

*Without it:* between machines, the first answer after a failover waits for one message more.

Nothing here decides anything. Who has won is what the authority says, and the primary sends all of it again
then: what comes this way is a message that was quick, and may be lost like any other.
"""

from typing import Final

from holdfast.authority.views import ViewChange
from holdfast.model.errors import Overloaded
from holdfast.model.ids import HostId
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Accepted, GroupMessage, Hello, IfWon, Knows, Lacking, Submit
from holdfast.sequence.ports import same
from holdfast.sequence.submission import Submission

BYTES_MAX: Final = 1 << 16
"""More is not sent ahead: whoever receives it keeps it for as long as the claim is unanswered."""
AT_ONCE_MAX: Final = 32
"""Where a host claims more groups at once, the work takes longer than the way, and this would add to it."""
_ANSWERS: Final = (Accepted, Hello, Knows, Lacking)


class EarlyMessages:
    """Those of one member."""

    def __init__(self, state: MemberState, submission: Submission) -> None:
        self._on = state
        self._submission = submission
        self._ahead: tuple[HostId, IfWon] | None = None
        """The last that a claimant has sent."""
        self._answers: dict[tuple[HostId, type[GroupMessage]], GroupMessage] = {}
        """What others have answered in the epoch that this member claims, the last of each kind."""
        self._submit: tuple[HostId, Submit] | None = None
        """The last Submit of another primary while this member's own claim was unanswered."""

    # --- at a claimant

    def on_claim(self, wanted: ViewChange, *, is_unproven: bool) -> None:
        """Send the others what they get first if this claim is won."""
        on, new = self._on, wanted.new
        self._submit = None
        self._answers.clear()
        shared = self._submission.surely_shared()
        if shared is None or on.ports.claims.waiting > AT_ONCE_MAX:
            return
        tail = previous = on.store.tail
        records: tuple[bytes, ...] = ()
        if shared < tail.position:
            try:
                lacked = on.store.lacked(shared, on.config.batch_records_max, BYTES_MAX)
            except Overloaded:
                return  # they wait for a new file of our log
            if lacked is None or lacked[2] < tail.position or sum(map(len, lacked[1])) > BYTES_MAX:
                return
            previous, records, _ = lacked
        for each in new.members:
            if not same(each, on.me):
                values = on.group, new.epoch, each.incarnation, previous, records, on.committed, tail
                ahead = IfWon(on.group, wanted.seen.value.epoch, new.nonce, Submit(*values, is_unproven))
                on.send(each.host, ahead)

    def keep(self, peer: HostId, message: GroupMessage) -> None:
        """Keep what reaches this member while its claim is unanswered, if it may count afterwards."""
        wanted = self._on.standing.pending
        if isinstance(message, Submit):
            self._submit = peer, message
        elif (
            wanted is not None
            and isinstance(message, _ANSWERS)
            and message.epoch == wanted.new.epoch
            and any(each.host == peer for each in wanted.new.members)
        ):
            self._answers[peer, type(message)] = message

    def take_answers(self) -> list[tuple[HostId, GroupMessage]]:
        """What the others have answered, now that this member has won."""
        found = [(host, message) for (host, _), message in self._answers.items()]
        self._answers.clear()
        return found

    def take_submit(self) -> tuple[HostId, Submit] | None:
        """The Submit that came, now that another has won."""
        found, self._submit = self._submit, None
        return found

    # --- at those that may follow

    def on_if_won(self, claimant: HostId, ahead: IfWon) -> None:
        if sum(map(len, ahead.submit.records)) <= BYTES_MAX:
            self._ahead = claimant, ahead

    def take_ahead(self) -> tuple[HostId, Submit] | None:
        """The Submit that the primary of the newest view has sent ahead of it, once."""
        found, view = self._ahead, self._on.standing.view
        if found is None or view is None or view.epoch < found[1].submit.epoch:
            return None
        self._ahead = None
        claimant, ahead = found
        is_won = view.nonce == ahead.nonce and view.primary == claimant
        return (claimant, ahead.submit) if is_won else None
