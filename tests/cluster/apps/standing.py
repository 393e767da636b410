"""A class with a method that takes long and blocks the host's loop meanwhile."""

import time


class Standing:
    def __init__(self) -> None:
        self.count = 0

    def stand(self, seconds: float) -> int:
        time.sleep(seconds)
        return self.add()

    def add(self) -> int:
        self.count += 1
        return self.count
