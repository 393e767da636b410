"""The ledger of a log: what must be there after a restart, and which losses damage excuses."""

from holdfast.sim.checkers.ledger import History, Ledger, appended, dropped, floored


def ledger_of(*reports: tuple[bytes, ...]) -> Ledger:
    """Return the ledger of an open log that has reported these bodies of group 1, batch by batch."""
    ledger, number = Ledger(), 0
    ledger.accept({})
    for bodies in reports:
        for body in bodies:
            number += 1
            ledger.asked(number, 1, appended(body))
        ledger.durable(number)
    return ledger


def held(*bodies: bytes) -> dict[int, History]:
    return {1: History(0, list(bodies))} if bodies else {}


def test_what_was_reported_must_be_there_and_nothing_else() -> None:
    ledger = ledger_of((b"a",), (b"b", b"c"))
    assert ledger.objection(held(b"a", b"b", b"c")) is None
    assert ledger.objection(held(b"a", b"b")) is not None
    assert ledger.objection(held(b"a", b"x", b"c")) is not None
    assert ledger.objection(held(b"a", b"b", b"c", b"d")) is not None


def test_what_was_asked_may_be_there_in_order() -> None:
    ledger = ledger_of((b"a",))
    ledger.asked(2, 1, appended(b"b"))
    ledger.asked(3, 1, dropped(0))
    ledger.asked(4, 1, appended(b"c", 2))
    ledger.asked(5, 1, floored(2))
    for found in (held(b"a"), held(b"a", b"b"), {1: History()}, held(b"c", b""), {1: History(2)}):
        assert ledger.objection(found) is None
    assert ledger.objection(held(b"b")) is not None


def test_a_fault_excuses_the_last_report_and_no_other() -> None:
    """Each fault excuses one report, from the end, in whole or in part; never one in the middle."""
    ledger = ledger_of((b"a",), (b"b",), (b"c", b"d"))
    assert ledger.objection(held(b"a", b"b"), lost_reports=1) is None
    assert ledger.objection(held(b"a"), lost_reports=1) is not None
    assert ledger.objection(held(b"a"), lost_reports=2) is None
    assert ledger.objection(held(b"a", b"c", b"d"), lost_reports=1) is not None


def test_a_report_of_nothing_is_a_report() -> None:
    """Damage to a batch without records excuses no records of the batch before."""
    ledger = ledger_of((b"a",), ())
    assert ledger.objection(held(), lost_reports=1) is not None
    assert ledger.objection(held(), lost_reports=2) is None
