"""A Trace that counts: what operators alert on is what cores note."""

from collections.abc import Callable, Mapping

from holdfast.model.ports import Trace

Listener = Callable[[str, Mapping[str, object]], None]
"""Told the kind of each note, and what it says."""


class CountingTrace:
    """Passes every note on to *trace* and counts it by its kind. Cores have a fixed set of kinds."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.counts: dict[str, int] = {}
        self.listeners: list[Listener] = []

    def note(self, kind: str, **fields: object) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._trace.note(kind, **fields)
        for listener in self.listeners:
            listener(kind, fields)
