"""The ids of one client's requests to one group: a number that is never given twice, and an expiration."""

import msgspec

from holdfast.calling.deadline import GroupTime
from holdfast.model.units import SECOND
from holdfast.styles.operation import Call, TracedCall


class Numbering:
    """Gives ids, in the group's time (FTC-93, X4)."""

    def __init__(self, time: GroupTime) -> None:
        self._time = time
        self.next_number = 1
        self.horizon_s = 0
        """The latest expiration given so far (X2)."""

    def call(self, method: str, arguments: msgspec.Raw, over_ns: int, traceparent: bytes = b"") -> Call:
        """A call under an id of its own, which may be forgotten when *over_ns* of the local clock has come:
        its duration is over then, and so is the time to ask for its outcome."""
        number = self.next_number
        self.next_number = number + 1
        expiration_s = self._time.at(over_ns) // SECOND + 1
        if expiration_s > self.horizon_s:
            self.horizon_s = expiration_s
        if traceparent:
            return TracedCall(number, method, arguments, expiration_s, traceparent)
        return Call(number, method, arguments, expiration_s)
