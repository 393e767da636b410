"""When a primary must look again at who owes it what; an idle group has no timer at all."""

from holdfast.sequence.alarms import Alarm, Alarms
from holdfast.sequence.footing import Footing
from holdfast.sequence.handover import Handover, Phase
from holdfast.sequence.ports import Me, same
from holdfast.sequence.submission import Submission


class Sweeping:
    """Sets the alarms of a primary."""

    def __init__(self, on: Footing, alarms: Alarms, submission: Submission, handover: Handover) -> None:
        self._on = on
        self._alarms = alarms
        self._submission = submission
        self._handover = handover

    @property
    def has_learner(self) -> bool:
        """Whether somebody follows who is not listed."""
        return len(self._submission.followers.all()) > len(self._others_listed())

    def arm(self) -> None:
        submission, config, standing = self._submission, self._on.config, self._on.standing
        if not submission.is_reigning:
            return
        if not self._alarms.is_set(Alarm.NOTIFY) and submission.has_news():
            self._alarms.set(Alarm.NOTIFY, config.notify_ns)
        if not self._alarms.is_set(Alarm.SWEEP) and (self._is_urgent() or not standing.is_as_wanted):
            # Who has owed for long will not answer soon: a thousand such groups must not keep a host busy.
            is_hopeless = submission.is_owed(since_ns=2 * config.silence_ns)
            is_urgent = self._is_urgent() and not is_hopeless
            self._alarms.set(Alarm.SWEEP, config.resend_ns if is_urgent else config.silence_ns)

    def _is_urgent(self) -> bool:
        submission = self._submission
        return (
            submission.is_owed()
            or not submission.is_serving
            or self._on.standing.joining is not None
            or self._handover.phase is not Phase.NONE
            or any(submission.followers.get(each) is None for each in self._others_listed())
            or self.has_learner
        )

    def _others_listed(self) -> list[Me]:
        return [member for member in self._on.standing.listed if not same(member, self._on.me)]
