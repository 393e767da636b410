"""What a group keeps for calls under idempotency keys is counted, for each caller and for all."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.ids import ClientId, Position
from holdfast.sequence.keyed_replies import ENTRY_BYTES, caller_of, keyed_client
from holdfast.sequence.retention import Retention

SHOP, OPS = "a" * 64, "b" * 64


def test_only_clients_that_stand_for_keys_have_a_caller() -> None:
    assert caller_of(keyed_client(SHOP, "c" * 32, 7)) == SHOP[:16]
    for other in ("client-1", "http-time", "h1:3", ""):
        assert caller_of(ClientId(other)) == ""


def test_replies_count_until_their_keys_expire() -> None:
    table = Retention()
    for number, caller in enumerate((SHOP, SHOP, OPS)):
        client = keyed_client(caller, str(number) * 32, 1)
        table.raise_floor(client, 1, 100 + number)
        table.admit(client, 1, Position(number + 1), 100 + number)
        table.finish(client, 1, bytes(1000))
    each = ENTRY_BYTES + 1000
    assert (table.keyed.of(SHOP[:16]), table.keyed.of(OPS[:16]), table.keyed.total) == (
        2 * each,
        each,
        3 * each,
    )
    assert Retention.load(table.save()).keyed.total == 3 * each
    table.advance(100)
    assert (table.keyed.of(SHOP[:16]), table.keyed.total) == (each, 2 * each)
    table.advance(1000)
    assert (table.keyed.of(SHOP[:16]), table.keyed.total, len(table)) == (0, 0, 0)


def test_what_a_client_has_received_does_not_count() -> None:
    """A client of ours raises its floor; its replies are gone soon and are bounded by what it awaits."""
    table = Retention()
    table.admit(ClientId("ours"), 1, Position(1), 100)
    table.finish(ClientId("ours"), 1, bytes(1000))
    assert table.keyed.total == 0


steps = st.lists(
    st.tuples(
        st.sampled_from(["call", "settle", "advance", "floor"]),
        st.integers(0, 3),
        st.integers(1, 4),
        st.integers(0, 50),
    ),
    max_size=40,
)


@given(steps)
def test_the_count_is_always_that_of_a_table_loaded_anew(taken: list[tuple[str, int, int, int]]) -> None:
    """Members count alike: whoever loads a checkpoint comes to the same numbers as who has seen it all."""
    table = Retention()
    for position, (kind, key, number, size) in enumerate(taken, start=1):
        client = keyed_client(SHOP if key % 2 else OPS, str(key) * 32, 1)
        expiration_s = table.time_s + 1 + 3 * key
        if kind == "call":
            table.raise_floor(client, 1, expiration_s)
            table.admit(client, number, Position(position), expiration_s)
            table.finish(client, number, bytes(size))
        elif kind == "settle":
            table.settle(client, number, expiration_s)
        elif kind == "floor":
            table.raise_floor(client, number, expiration_s)
        else:
            table.advance(table.time_s + number)
        again = Retention.load(table.save())
        for caller in (SHOP, OPS):
            assert table.keyed.of(caller[:16]) == again.keyed.of(caller[:16])
        assert table.keyed.total == again.keyed.total
