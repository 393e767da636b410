"""The classes that `holdfast bench streams` feeds: they count, and look at each message."""

import struct
import time

import holdfast as hf

SENT = struct.Struct("d")
TIMED = "timed"
"""The topic of messages that begin with the time at which they were sent, by the machine's clock."""
took: list[float] = []
"""How long each of them took until it was delivered here, in seconds. It belongs to the process and not to
the object: the members of a group differ in it."""


class Meter:
    """Counts what it is told; *policy* says what becomes of losses."""

    streams = hf.StreamSettings(grace_ms=5, recover_ms=1_000)

    def __init__(self, policy: str = "drop") -> None:
        self.policy = policy
        self.count = 0
        self.sum = 0

    def on_messages(self, batch: list[hf.StreamMessage]) -> None:
        self.count += len(batch)
        for each in batch:
            self.sum += each.payload[0]
        if batch[0].topic == TIMED:
            now = time.monotonic()
            took.extend(now - SENT.unpack_from(each.payload)[0] for each in batch)

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return hf.Drop() if self.policy == "drop" else hf.Recover() | hf.Drop()

    @hf.query
    def total(self) -> int:
        return self.count

    @hf.query
    def percentiles(self) -> list[float]:
        """The median and the 99th percentile at this member since the last question, in seconds."""
        found = sorted(took)
        took.clear()
        return [found[len(found) // 2], found[len(found) * 99 // 100]] if found else []


class Heavy(Meter):
    """One with a state of 100 MB, which a member that lacks one message must take whole. What comes meanwhile
    it must hold: some seconds of the highest rate."""

    streams = hf.StreamSettings(
        retain="none",
        recover_from=("log",),
        grace_ms=5,
        recover_ms=10,
        retry_ms=5,
        hold_messages=8_000_000,
        hold_bytes=2 << 30,
    )

    cargo: bytearray

    def __init__(self, policy: str = "drop") -> None:
        super().__init__(policy)
        self.cargo = bytearray(100_000_000)
