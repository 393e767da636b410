"""The object of the benchmark of detectors: it is harmed by a file that names the process it lives in.

By a file and not by a call: a call would be made again on the member that takes over, and harm that one too.
"""

import os
import time
from pathlib import Path
from typing import Final

from holdfast.machine import MachineClock

SAYS_NO: Final = "says no"
BLOCKS: Final = "blocks"
STANDS: Final = "stands"
FOR_EVER_S: Final = 600.0


class Patient:
    """Adds up. *orders*: the directory in which it finds how it shall be."""

    def __init__(self, orders: str) -> None:
        self.orders = orders
        self.total = 0

    def add(self, amount: int) -> int:
        if _takes(self.orders, STANDS):
            _stand(self.orders)
        self.total += amount
        return self.total

    def is_alive(self) -> bool:
        if _takes(self.orders, BLOCKS):
            _stand(self.orders)
        return not _takes(self.orders, SAYS_NO)


def harm(orders: Path, pid: int, how: str) -> None:
    """Let the object in process *pid* be so, once."""
    (orders / f"{pid} {how}").touch()


def stood_at_ns(orders: Path, pid: int) -> int | None:
    """When the loop of process *pid* began to stand, by the machine's clock; None: not yet."""
    try:
        return int((orders / f"{pid} stood").read_text())
    except (FileNotFoundError, ValueError):
        return None


def _takes(orders: str, how: str) -> bool:
    try:
        os.unlink(os.path.join(orders, f"{os.getpid()} {how}"))
    except FileNotFoundError:
        return False
    return True


def _stand(orders: str) -> None:
    (Path(orders) / f"{os.getpid()} stood").write_text(str(MachineClock().now()))
    time.sleep(FOR_EVER_S)
