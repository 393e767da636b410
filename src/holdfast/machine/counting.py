"""A Trace that counts: what operators alert on is what cores note."""

from holdfast.model.ports import Trace


class CountingTrace:
    """Passes every note on to *trace* and counts it by its kind. Cores have a fixed set of kinds."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.counts: dict[str, int] = {}

    def note(self, kind: str, **fields: object) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._trace.note(kind, **fields)
