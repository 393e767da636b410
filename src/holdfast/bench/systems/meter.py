"""The class that `holdfast bench streams` feeds: it counts, and looks at each message."""

import holdfast as hf


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

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return hf.Drop() if self.policy == "drop" else hf.Recover() | hf.Drop()

    @hf.query
    def total(self) -> int:
        return self.count
