"""Fault events that earlier versions sent or kept are read for ever."""

import json
from pathlib import Path

import pytest

from holdfast.faults.events import Location, Property, StructuredEvent, decode_events, encode_events
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.ids import GroupId

SAMPLES = json.loads((Path(__file__).parent / "fault_events_v1.json").read_text(encoding="utf-8"))
"""What version 1 wrote, in hexadecimal. Never edited: a new version adds a file of its own."""

HOST = Location.parse("hostC/procB", "hostname", "processname")
MEMBER = FaultReport(FaultKind.OBJECT_CRASH, "ftdom0", HOST, "type2", GroupId(2**64 - 1)).to_event()
SKEW = FaultReport(
    FaultKind.CLOCK_SKEW,
    "ftdom0",
    Location.parse("hostC"),
    details={"HostId": "a", "SkewNs": -5},
    why="two hours",
)
FOREIGN = StructuredEvent(
    MEMBER.header, (Property("hosts", ("a", 1, 2.5, True)), Property("rate", 0.5)), HOST
)
BATCHES: dict[str, tuple[StructuredEvent, ...]] = {
    "empty": (),
    "member": (MEMBER,),
    "several": (SKEW.to_event(), FOREIGN, MEMBER),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_version_1_are_read(name: str) -> None:
    assert decode_events(bytes.fromhex(SAMPLES[name])) == BATCHES[name]


@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_written_as_version_1_did(name: str) -> None:
    """Until there is a version 2."""
    assert encode_events(BATCHES[name]).hex() == SAMPLES[name]
