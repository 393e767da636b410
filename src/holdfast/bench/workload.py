"""The object of the benchmarks. Its methods cost nearly nothing, so that what is measured is ours."""

from holdfast.styles.interface import query


class Counter:
    """Adds up."""

    def __init__(self) -> None:
        self.total = 0
        self.last = b""

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total

    def put(self, payload: bytes) -> int:
        """Keep *payload* in place of the one before; how many were put."""
        self.last = payload
        self.total += 1
        return self.total

    @query
    def read(self) -> int:
        return self.total
