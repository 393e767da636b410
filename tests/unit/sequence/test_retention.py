"""The exactly-once table: which requests are executed, answered again, or never executed."""

import random

import msgspec
import pytest

from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import ClientId, Position
from holdfast.sequence.retention import (
    ABANDONED,
    EXPIRED,
    FRESH,
    KEPT_S_MAX,
    NEVER,
    TOO_LATE,
    Fresh,
    InProgress,
    Repeated,
    Retention,
)

A, B = ClientId("a"), ClientId("b")


def executed(table: Retention, client: ClientId, number: int, *, expiration_s: int = 100) -> None:
    table.begin(client, number, Position(number), expiration_s)
    table.finish(client, number, b"reply %d" % number)


@pytest.mark.covers("FTC-97")
def test_a_repetition_gets_the_first_reply() -> None:
    table = Retention()
    assert table.judge(A, 1, 100) == FRESH
    executed(table, A, 1)
    assert table.judge(A, 1, 100) == Repeated(b"reply 1", Position(1))
    assert table.judge(B, 1, 100) == FRESH


@pytest.mark.covers("FTC-103")
def test_a_repetition_of_one_without_a_reply_waits_for_it() -> None:
    table = Retention()
    table.begin(A, 1, Position(7), 100)
    assert table.judge(A, 1, 100) == InProgress(Position(7))


def test_ordering_a_request_twice_is_a_broken_invariant() -> None:
    table = Retention()
    table.begin(A, 1, Position(1), 100)
    with pytest.raises(BrokenInvariant):
        table.begin(A, 1, Position(2), 100)


@pytest.mark.covers("FTC-96", "FTC-98")
def test_an_entry_lives_until_the_groups_time_passes_its_expiration_and_then_it_is_refused() -> None:
    """X2: until its expiration the reply is there; afterwards the request is refused, never executed."""
    table = Retention()
    executed(table, A, 1, expiration_s=100)
    table.advance(99)
    assert table.judge(A, 1, 100) == Repeated(b"reply 1", Position(1))
    table.advance(100)
    assert table.judge(A, 1, 100) == EXPIRED
    assert len(table) == 0


def test_time_never_goes_back() -> None:
    table = Retention()
    table.advance(100)
    table.advance(50)
    assert table.judge(A, 1, 100) == EXPIRED


def test_the_floor_forgets_what_the_client_no_longer_awaits_and_refuses_late_copies() -> None:
    """X2: a copy that arrives after its client's floor passed it is refused, although nothing of it is
    remembered."""
    table = Retention()
    for number in (1, 2, 3):
        executed(table, A, number)
    table.raise_floor(A, 3, horizon_s=100)
    assert len(table) == 1
    assert table.judge(A, 2, 100) == ABANDONED
    assert table.judge(A, 3, 100) == Repeated(b"reply 3", Position(3))
    table.raise_floor(A, 2, horizon_s=100)
    assert table.judge(A, 2, 100) == ABANDONED


def test_the_floor_of_a_client_is_kept_as_long_as_anything_of_it_may_arrive() -> None:
    """A client is forgotten only when the group's time has passed its horizon: all its requests have
    expired."""
    table = Retention()
    executed(table, A, 5, expiration_s=100)
    table.raise_floor(A, 6, horizon_s=500)
    table.advance(499)
    assert table.judge(A, 3, 500) == ABANDONED
    table.advance(500)
    assert table.judge(A, 3, 500) == EXPIRED
    assert table.save() == _empty_at(500)


def _empty_at(time_s: int) -> bytes:
    table = Retention()
    table.advance(time_s)
    return table.save()


def test_asking_for_an_outcome_settles_it() -> None:
    """X3: once a client was told that a request has not run, it never will; asking again gives the same
    answer."""
    table = Retention()
    assert table.settle(A, 1, 100) == NEVER
    assert table.judge(A, 1, 100) == NEVER
    assert table.settle(A, 1, 100) == NEVER
    executed(table, A, 2)
    assert table.settle(A, 2, 100) == Repeated(b"reply 2", Position(2))
    table.begin(A, 3, Position(9), 100)
    assert table.settle(A, 3, 100) == InProgress(Position(9))


def test_a_saved_table_judges_as_the_one_it_was_saved_from() -> None:
    """X1: over random histories, a member that installs a checkpoint agrees with those that built the
    table."""
    rng = random.Random(1)
    for _ in range(200):
        table = Retention()
        clients = [ClientId(f"c{index}") for index in range(3)]
        numbers = dict.fromkeys(clients, 0)
        for step in range(40):
            client = rng.choice(clients)
            match rng.randrange(5):
                case 0:
                    table.advance(step)
                case 1:
                    table.raise_floor(client, rng.randint(1, numbers[client] + 1), step + 30)
                case 2:
                    table.settle(client, rng.randint(1, numbers[client] + 2), step + rng.randint(1, 20))
                case _:
                    numbers[client] += 1
                    expiration_s = step + rng.randint(1, 20)
                    if isinstance(table.judge(client, numbers[client], expiration_s), Fresh):
                        executed(table, client, numbers[client], expiration_s=expiration_s)
        loaded = Retention.load(table.save())
        assert loaded.save() == table.save()
        for time_s in (40, 50, 60, 80):
            for client in clients:
                for number in range(1, numbers[client] + 3):
                    assert loaded.judge(client, number, 70) == table.judge(client, number, 70)
            loaded.advance(time_s)
            table.advance(time_s)
        assert loaded.save() == table.save()


def test_equal_tables_have_equal_bytes_whatever_the_order_they_were_built_in() -> None:
    one, other = Retention(), Retention()
    for client, number in ((A, 1), (A, 2), (B, 1)):
        executed(one, client, number)
    for client, number in ((B, 1), (A, 2), (A, 1)):
        executed(other, client, number)
    assert one.save() == other.save()


def test_a_spoilt_table_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        Retention.load(b"\x93\x01")


def test_what_is_forgotten_leaves_nothing_behind() -> None:
    """A client that keeps moving its floor costs as much as what it awaits, not as all that it ever asked."""
    table = Retention()
    for number in range(1, 20_001):
        executed(table, A, number, expiration_s=number // 100 + 60)
        table.raise_floor(A, number, horizon_s=number // 100 + 60)
        table.advance(number // 100)
    assert len(table) == 1
    assert len(table.save()) < 200


def test_every_entry_goes_in_the_second_in_which_it_expires() -> None:
    """This holds whichever entry expires first, whichever floor has moved, and in a table that was saved and
    loaded in between: members that disagree on one entry disagree on which requests are executed."""
    rng = random.Random(5)
    table, expected = Retention(), dict[tuple[ClientId, int], int]()
    for second in range(1, 200):
        for client in (A, B):
            number = 10 * second + rng.randrange(10)
            expiration_s = second + rng.randrange(1, 40)
            assert table.admit(client, number, Position(number), expiration_s) is FRESH
            expected[client, number] = expiration_s
            if rng.random() < 0.2:
                floor = 10 * (second - rng.randrange(20))
                table.raise_floor(client, floor, horizon_s=expiration_s)
                expected = {key: due for key, due in expected.items() if key[0] != client or key[1] >= floor}
        if rng.random() < 0.1:
            table = Retention.load(table.save())
        table.advance(second)
        expected = {key: due for key, due in expected.items() if due > second}
        assert len(table) == len(expected)
        assert all(isinstance(table.judge(*key, due), InProgress) for key, due in expected.items())


@pytest.mark.covers("FTC-95")
def test_a_request_that_expires_later_than_replies_are_kept_is_refused_and_leaves_no_trace() -> None:
    """Neither the request nor what its client says of later ones makes the table remember for longer."""
    table = Retention()
    table.advance(1_000)
    for expiration_s in (1_001 + KEPT_S_MAX, 1 << 60):
        table.raise_floor(A, 1, expiration_s)
        assert table.admit(A, 1, Position(1), expiration_s) is TOO_LATE
        assert table.settle(A, 1, expiration_s) is TOO_LATE
    assert len(table) == 0
    assert table.admit(A, 2, Position(2), 1_000 + KEPT_S_MAX) is FRESH
    table.advance(1_000 + KEPT_S_MAX)
    assert table.save() == _empty_at(1_000 + KEPT_S_MAX)


def test_what_expires_too_late_now_may_run_when_its_time_has_come_and_then_once() -> None:
    """The client was forgotten in the meantime, but nothing of it that could be executed twice."""
    table, expiration_s = Retention(), 5 * KEPT_S_MAX
    table.raise_floor(A, 1, expiration_s)
    assert table.admit(A, 1, Position(1), expiration_s) is TOO_LATE
    table.advance(4 * KEPT_S_MAX)
    table.raise_floor(A, 1, expiration_s)
    assert table.admit(A, 1, Position(2), expiration_s) is FRESH
    table.finish(A, 1, b"done")
    table.advance(expiration_s - 1)
    assert table.judge(A, 1, expiration_s) == Repeated(b"done", Position(2))


def test_an_operation_of_a_group_that_is_years_ahead_may_call_others() -> None:
    """The expiration of such a call is computed in its own group's time (decision 0011)."""
    table = Retention()
    table.raise_floor(A, 1, 1 << 40, is_nested=True)
    assert table.admit(A, 1, Position(1), 1 << 40) is FRESH
