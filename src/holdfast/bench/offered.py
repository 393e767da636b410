"""The classes that benchmarks make groups of: installed with Holdfast, so a domain must allow them."""

from typing import Final

CLASSES: Final = (
    "holdfast.bench.attendance:Tally",
    "holdfast.bench.bulk:Bulk",
    "holdfast.bench.patient:Patient",
    "holdfast.bench.relaying:InterleavedRelay",
    "holdfast.bench.relaying:Neighbour",
    "holdfast.bench.relaying:Relay",
    "holdfast.bench.workload:Counter",
)
