"""The uses that the source names, each as a class of its own: a bank, a shop and a game, with reliable and
unreliable sources. Its fourth, the order book of an exchange, is ``examples/exchange.py``."""

import pytest
from stream_group import StreamGroup

import holdfast as hf
from holdfast.streams.message import Message, Origin

COUNTER = Origin("branch", "counter", 1)
PHONES = Origin("phones", "mobile", 1)
SETTINGS = hf.StreamSettings(grace_ms=10, recover_ms=60, retry_ms=10, attempts=1, next_messages=2)


def said(number: int, text: str, priority: int = 1, topic: str = "") -> Message:
    return Message(number, priority, topic, text.encode())


class Bank:
    """A transfer at the counter is never given up; one by telephone is, if the phone takes it back next."""

    streams = SETTINGS

    def __init__(self) -> None:
        self.balances = {"ada": 100, "bob": 100}

    def on_message(self, message: hf.StreamMessage) -> None:
        match message.payload.decode().split():
            case ["pay", payer, payee, amount]:
                self.balances[payer] -= int(amount)
                self.balances[payee] += int(amount)

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        if any(each.payload == b"rollback" for each in info.next_messages):
            return hf.Drop()
        return hf.Recover() | hf.Suspend() if info.source == "branch" else hf.Recover() | hf.Drop()


@pytest.mark.covers("LOSS-105", "LOSS-43")
def test_a_bank_loses_no_transfer_and_asks_nobody_for_one_that_was_taken_back() -> None:
    made = StreamGroup(Bank)
    pays = [said(number, "pay ada bob 10") for number in (1, 2, 3)]
    made.send("abc", pays[0], origin=COUNTER)
    made.send("b", pays[1], origin=COUNTER)
    made.send("abc", pays[2], origin=COUNTER)
    made.send("abc", said(1, "pay bob ada 5"), origin=PHONES)
    made.send("bc", said(2, "pay bob ada 50"), origin=PHONES)
    made.send("abc", said(3, "rollback"), origin=PHONES)
    made.run(200)
    assert [each.balances for each in made.objects()] == [{"ada": 75, "bob": 125}] * 3
    made.send("abc", said(5, "pay ada bob 1"), origin=COUNTER)  # nobody has 4: the stream waits for people
    made.send("abc", said(4, "pay bob ada 25"), origin=PHONES)
    made.run(300)
    assert [each.balances for each in made.objects()] == [{"ada": 100, "bob": 100}] * 3
    made.send("c", said(4, "pay ada bob 2"), origin=COUNTER)
    made.run(300)
    assert [(who, to) for who, to, _ in made.handed_over] == [("a", "c")]


class Shop:
    """Orders are recovered. A cart of which something is lost is of no use until it is sent whole."""

    streams = SETTINGS

    def __init__(self) -> None:
        self.cart: dict[str, list[str]] = {}
        self.ordered: list[str] = []

    def on_message(self, message: hf.StreamMessage) -> None:
        word, _, what = message.payload.decode().partition(" ")
        if word == "order":
            self.ordered.append(what)
        elif word == "whole":
            self.cart[message.stream] = what.split()
        else:
            self.cart.setdefault(message.stream, []).append(what)

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        if info.stream == "counter":
            return hf.Recover() | hf.Drop()
        return hf.Drop() & hf.Ignore(topic="cart", until_sync=True)


@pytest.mark.covers("LOSS-105", "LOSS-66")
def test_a_shop_forgets_a_cart_that_is_out_of_step_and_keeps_orders() -> None:
    made = StreamGroup(Shop)
    made.send("abc", said(1, "add pen", topic="cart"), origin=PHONES)
    made.send("bc", said(2, "add ink", topic="cart"), origin=PHONES)
    made.send("abc", said(3, "add pad", topic="cart"), origin=PHONES)
    made.send("abc", said(1, "order 17"), origin=COUNTER)
    made.send("c", said(2, "order 18"), origin=COUNTER)
    made.send("abc", said(3, "order 19"), origin=COUNTER)
    made.run(100)
    made.send("abc", said(4, "order 20", topic="till"), origin=PHONES)  # of the same stream, not of the cart
    assert [each.cart for each in made.objects()] == [{"mobile": ["pen"]}] * 3
    assert [each.ordered for each in made.objects()] == [["17", "18", "19", "20"]] * 3
    made.send(
        "abc", said(5, "whole pen ink pad", topic="sync"), said(6, "add cap", topic="cart"), origin=PHONES
    )
    made.run(20)
    assert [each.cart for each in made.objects()] == [{"mobile": ["pen", "ink", "pad", "cap"]}] * 3


class Game:
    """A hit counts, and is recovered. A position is stale as soon as the next one is there. A player who
    loses too much is not listened to for a while."""

    streams = SETTINGS

    def __init__(self) -> None:
        self.at: dict[str, int] = {}
        self.hits = 0

    def on_message(self, message: hf.StreamMessage) -> None:
        word, number = message.payload.split()
        self.hits += word == b"hit"
        if word == b"at":
            self.at[message.source] = int(number)

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        if info.losses_before >= 2:
            return hf.Drop() & hf.Ignore(for_messages=2)
        return hf.Drop() if info.priority.is_high_lost is hf.Lost.NO else hf.Recover() | hf.Drop()


@pytest.mark.covers("LOSS-105", "LOSS-11")
def test_a_game_drops_positions_recovers_hits_and_stops_listening_to_a_bad_line() -> None:
    made = StreamGroup(Game)
    far = Message(3, 1, "", b"at 3", distances=(-1,))  # no hit before it
    made.send("abc", said(1, "at 1"), origin=PHONES)
    made.send("b", said(2, "at 2"), origin=PHONES)
    made.send("abc", far, origin=PHONES)
    made.run(30)
    assert [each.at for each in made.objects()] == [{"phones": 3}] * 3
    assert made.ledger().streams["mobile"].dropped == 1
    near = Message(5, 1, "", b"at 5", distances=(1,))  # 4 was a hit
    made.send("c", said(4, "hit 1", 0), origin=PHONES)
    made.send("abc", near, origin=PHONES)
    made.run(100)
    assert [(each.hits, each.at["phones"]) for each in made.objects()] == [(1, 5)] * 3
    made.send("abc", Message(7, 1, "", b"at 7", distances=(-1,)), origin=PHONES)  # 6 is the third loss
    made.run(30)
    made.send("abc", said(8, "at 8"), said(9, "at 9"), origin=PHONES)
    made.run(20)
    assert [each.at["phones"] for each in made.objects()] == [9] * 3
    assert [made.ledger(name).streams["mobile"].ignored for name in "abc"] == [2] * 3
