"""This machine's randomness as a Random port, and nonces from it."""

import random
import secrets

from holdfast.model.ids import Nonce


class MachineRandom:
    """Each stream is seeded by the operating system; there is nothing to reproduce outside the simulator."""

    def __init__(self) -> None:
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        if name not in self._streams:
            self._streams[name] = random.Random(random.SystemRandom().getrandbits(256))
        return self._streams[name]


def fresh_nonce() -> Nonce:
    return Nonce(secrets.token_hex(16))
