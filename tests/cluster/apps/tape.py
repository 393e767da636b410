"""A group that writes down what its streams deliver, and decides about losses as it was told to."""

from hashlib import blake2b

import holdfast as hf


class Tape:
    """Keeps a running digest of every message, and the last number of each stream."""

    streams = hf.StreamSettings(grace_ms=10, recover_ms=2_000, attempts=8)

    def __init__(self, policy: str = "gap_fill") -> None:
        self.policy = policy
        self.digest = b""
        self.count = 0
        self.last: dict[str, int] = {}
        self.wrong = 0
        self.actions: list[str] = []
        self.emitted = 0

    def on_messages(self, batch: list[hf.StreamMessage]) -> None:
        for each in batch:
            if each.number <= self.last.get(each.stream, 0):
                self.wrong += 1
            self.last[each.stream] = each.number
            self.digest = blake2b(self.digest + each.stream.encode() + each.payload, digest_size=16).digest()
            if each.number % 50 == 0:
                hf.context.emit(each.stream, str(each.number).encode())
                self.emitted += 1
        self.count += len(batch)

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        return {"drop": hf.Drop(), "gap_fill": hf.Recover() | hf.Drop()}[self.policy]

    def on_action(self, notice: hf.Notice) -> None:
        self.actions = [*self.actions[-20:], f"{notice.stream} {notice.first}-{notice.last} {notice.kind}"]

    @hf.query
    def tally(self) -> list[object]:
        """What must be equal at every member."""
        last = dict(sorted(self.last.items()))
        return [self.count, self.digest.hex(), self.wrong, last, self.actions, self.emitted]


class Logged(Tape):
    """One whose members have messages from the sources and from the hosts' message log, and nowhere else."""

    streams = hf.StreamSettings(
        retain="none", recover_from=("log",), grace_ms=10, recover_ms=3_000, attempts=8, retry_ms=20
    )


class Bare(Tape):
    """One whose order carries numbers alone: members have the messages from the source or from each other."""

    streams = hf.StreamSettings(retain="none", grace_ms=10, recover_ms=2_000, attempts=8)


class Judged(Tape):
    """One whose losses another group decides about, however long that takes."""

    streams = hf.StreamSettings(grace_ms=10, decider_group="judge", decide_ms=60_000)


class Hurried(Tape):
    """One that does not wait for long."""

    streams = hf.StreamSettings(grace_ms=10, decider_group="mute", decide_ms=1_000, default=hf.Drop())


class Judge:
    """Decides about the losses of others, and remembers what it was told. It takes part in no streams."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, int]] = []

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        self.told.append((info.stream, info.first, info.last))
        return hf.Drop()

    @hf.query
    def asked(self) -> list[tuple[str, int, int]]:
        return self.told
