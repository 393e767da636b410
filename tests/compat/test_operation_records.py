"""Records and states that earlier versions wrote are read for ever: a log outlives the program."""

import json
from pathlib import Path

import msgspec
import pytest

from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import (
    Annexed,
    Call,
    Calls,
    Digested,
    Executed,
    Forward,
    Marked,
    NestedReply,
    Poison,
    Ran,
    Record,
    Replied,
    Reply,
    SendEnded,
    Sent,
    Settled,
    Stamp,
    State,
    TimerFired,
    TracedCall,
    Unmarked,
    Update,
    Upgraded,
    Withdrawn,
    decode_calls,
    decode_record,
)
from holdfast.execution.saved_state import head_of
from holdfast.execution.sends import Sends
from holdfast.model.calls import Request
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.deadlock import Root
from holdfast.model.ids import ClientId, Position, ReplicaId
from holdfast.model.outcome import Outcome, Poisoned, Raised, Refused, Returned, Unknown, decode_outcome

SAMPLES = json.loads((Path(__file__).parent / "operation_records_v1.json").read_text(encoding="utf-8"))
"""What version 1 wrote, in hexadecimal. Never edited: a new version adds a file of its own."""
SAMPLES_2 = json.loads((Path(__file__).parent / "operation_records_v2.json").read_text(encoding="utf-8"))
"""What version 2 added: calls may carry a trace."""
SAMPLES_3 = json.loads((Path(__file__).parent / "operation_records_v3.json").read_text(encoding="utf-8"))
"""What version 3 added: groups send calls that nobody waits for, and their operations may be interleaved."""
SAMPLES_4 = json.loads((Path(__file__).parent / "operation_records_v4.json").read_text(encoding="utf-8"))
"""What version 4 added: slow operations take effect later than they are ordered."""
SAMPLES_5 = json.loads((Path(__file__).parent / "operation_records_v5.json").read_text(encoding="utf-8"))
"""What version 5 added: annexes have records and a part of the state."""

CLIENT = ClientId("client-1")
STAMP = Stamp(Csn(1_700_000_000, 7, ReplicaId(3), 2), 123_456_789)
CALL = Call(12, "deposit", msgspec.Raw(bytes.fromhex("92a5616c69636505")), 1_700_000_060)
SENT = Sent(CLIENT, 10, 1_700_000_060, msgspec.Raw(msgspec.msgpack.encode([CALL])), ("outer",))

RECORDS: dict[str, Record] = {
    "calls": Calls(STAMP, SENT),
    "executed": Executed(STAMP, SENT, [b"\x92\x00\x05"]),
    "replied": Replied([Reply(CLIENT, 12, b"\x92\x00\x05")]),
    "nested_reply": NestedReply(STAMP, CLIENT, 12, 1, b"\x92\x00\x05"),
    "timer_fired": TimerFired(STAMP, 4, 1_700_000_005_000_000_000),
    "settled": Settled(STAMP, CLIENT, 12, 1_700_000_060),
    "poison": Poison(STAMP, CLIENT, 12, 1_700_000_060, 2),
    "upgraded": Upgraded(Code("1.0", "aa01"), Code("2.0", "bb02")),
    "state": State(b"state"),
    "update": Update(b"update", b"timers"),
    "forward": Forward(),
    "marked": Marked(),
    "digested": Digested(Position(17), b"digest"),
}
RECORDS_3: dict[str, Record] = {
    "unmarked": Unmarked(),
    "withdrawn": Withdrawn(STAMP, CLIENT, 12, b"\x93\x02\xaacall_cycle\xa0"),
    "nested_calls": Calls(
        STAMP, msgspec.structs.replace(SENT, root=Root(1_700_000_000_000_000_007, "outer", CLIENT, 3))
    ),
    "send_ended": SendEnded(STAMP, 9, "expired", "no answer"),
    "update": Update(b"update", b"timers", b"sends"),
}
RECORDS_4: dict[str, Record] = {"ran": Ran(STAMP, CLIENT, 12)}
RECORDS_5: dict[str, Record] = {
    "annexed": Annexed(STAMP, "streams", 3, b"body"),
    "update": Update(b"update", b"timers", b"sends", {"streams": b"part"}),
}
OUTCOMES: dict[str, Outcome] = {
    "returned": Returned({"alice": [1, 2.5, None]}),
    "raised": Raised("ValueError", "too little"),
    "refused": Refused("expired", "too late"),
    "poisoned": Poisoned(2),
    "unknown": Unknown("no answer"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_of_version_1_are_read(name: str) -> None:
    assert decode_record(bytes.fromhex(SAMPLES[name])) == RECORDS[name]


@pytest.mark.parametrize("name", RECORDS_3)
def test_records_of_version_3_are_read(name: str) -> None:
    assert decode_record(bytes.fromhex(SAMPLES_3[name])) == RECORDS_3[name]


@pytest.mark.parametrize("name", RECORDS_4)
def test_records_of_version_4_are_read(name: str) -> None:
    assert decode_record(bytes.fromhex(SAMPLES_4[name])) == RECORDS_4[name]


@pytest.mark.parametrize("name", RECORDS_5)
def test_records_of_version_5_are_read(name: str) -> None:
    assert decode_record(bytes.fromhex(SAMPLES_5[name])) == RECORDS_5[name]


def test_a_state_saved_by_version_5_has_the_parts_of_annexes() -> None:
    found = head_of(iter([bytes.fromhex(SAMPLES_5["saved"])]))
    assert (found.position, found.annexes) == (4, {"streams": b"part"})


def test_an_outbox_of_version_3_is_read() -> None:
    found = Sends.load(bytes.fromhex(SAMPLES_3["sends"]))
    assert (found.issued, found.failures) == (2, 1)
    assert [(each.group, each.method, each.caller) for each in found] == [
        ("audit", "note", Request(CLIENT, 12))
    ]
    assert [(each.number, each.code) for each in found.failed] == [(1, "expired")]


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes_of_version_1_are_read(name: str) -> None:
    assert decode_outcome(bytes.fromhex(SAMPLES[name])) == OUTCOMES[name]


def test_calls_of_version_1_are_read() -> None:
    record = decode_record(bytes.fromhex(SAMPLES["calls"]))
    assert isinstance(record, Calls)
    assert decode_calls(record.sent.calls) == [TracedCall(*msgspec.structs.astuple(CALL))]


def test_calls_that_carry_a_trace_are_read() -> None:
    traced = TracedCall(*msgspec.structs.astuple(CALL), bytes(range(1, 26)))
    assert decode_calls(bytes.fromhex(SAMPLES_2["traced_calls"])) == [traced]


class Account:
    def __init__(self) -> None:
        self.balance = 0

    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance


def test_a_state_saved_by_version_1_is_loaded() -> None:
    """With its object, its replies, its timers and what queued in it."""
    loaded = Execution.load(Definition("account", Account, Account), bytes.fromhex(SAMPLES["saved"]))
    assert loaded.position == 4
    assert len(loaded.retention) == 3
    assert loaded.timers.next_due_ns() == 1_700_000_009_000_000_000
    (reply,) = loaded.go_on().later
    assert (reply.number, decode_outcome(reply.outcome)) == (3, Returned(12))
