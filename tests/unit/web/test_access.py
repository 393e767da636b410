"""Who is admitted through the HTTP door, and what they may call."""

import os
from hashlib import sha256

import pytest

from holdfast.machine.peer_user import End
from holdfast.net.handshake import CertifiedName, Role
from holdfast.web.access import AccessPolicy, Arrival, HttpCaller
from holdfast.web.problems import Refusal
from holdfast.web.settings import Client, HttpSettings

CLIENTS = {
    "shop": Client(
        token_sha256=sha256(b"shop's").hexdigest(),
        calls={"ledger": ("deposit", "balance"), "stock-*": ("*",)},
    ),
    "ops": Client(token_sha256=sha256(b"ops'").hexdigest(), grade="admin"),
    "eyes": Client(token_sha256=sha256(b"eyes'").hexdigest(), grade="reader"),
    "card": Client(calls={"ledger": ("*",)}),
}
OWN, ROOTS, STRANGERS, UNKNOWN = ((("127.0.0.1", port), ("127.0.0.1", 80)) for port in range(1, 5))


def user_of(peer: End, here: End) -> int | None:
    """Users by their ports."""
    return {1: os.geteuid(), 2: 0, 3: os.geteuid() + 1}.get(peer[1])


POLICY = AccessPolicy(HttpSettings(certs="certs", clients=CLIENTS), "main", user_of)
LOCAL = {"host": "127.0.0.1:8080"}


def admitted(policy: AccessPolicy = POLICY, peer: str = "127.0.0.1", **headers: str) -> HttpCaller:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return policy.admit(Arrival(peer, said, ends=OWN))


def status_of(arrival: Arrival, policy: AccessPolicy = POLICY) -> int:
    with pytest.raises(Refusal) as raised:
        policy.admit(arrival)
    return raised.value.status


def test_a_token_says_who_it_is() -> None:
    """A token counts wherever the request comes from, and before all else that identifies the caller."""
    assert admitted(peer="192.0.2.1", authorization="Bearer shop's").name == "shop"
    assert admitted(authorization="bearer ops'", **LOCAL).grade == "admin"


@pytest.mark.parametrize(
    "said", ["Bearer shop", "Bearer ", "Bearer", "Basic c2hvcA==", "", "Bearer " + "x" * 9999]
)
def test_a_token_of_nobody_is_refused_on_this_machine_too(said: str) -> None:
    """A caller that shows a token claims to be its owner, and is not admitted as somebody else."""
    assert status_of(Arrival("127.0.0.1", {**LOCAL, "authorization": said})) == 401


def test_a_certificate_says_who_it_is() -> None:
    """A client's counts only if it is listed, an admin's by its role; another domain's or a host's never."""
    at = "192.0.2.1"
    assert POLICY.admit(Arrival(at, {}, CertifiedName("main", Role.CLIENT, "card"))).name == "card"
    assert POLICY.admit(Arrival(at, {}, CertifiedName("main", Role.ADMIN, "ann"))).grade == "admin"
    for name in (
        CertifiedName("main", Role.CLIENT, "stranger"),
        CertifiedName("other", Role.CLIENT, "card"),
        CertifiedName("other", Role.ADMIN, "ann"),
        CertifiedName("main", Role.HOST, "card"),
    ):
        assert status_of(Arrival(at, {}, name)) == 401


def test_this_machine_needs_no_token_unless_it_is_told_so() -> None:
    """Loopback is the admin by default, and can be a reader or nobody."""
    assert admitted(**LOCAL).grade == "admin"
    assert admitted(peer="::1", host="[::1]:80").grade == "admin"
    reader = admitted(AccessPolicy(HttpSettings(loopback="reader"), "main", user_of), **LOCAL)
    assert (reader.grade, reader.may_call("ledger", "deposit")) == ("reader", False)
    nobody = AccessPolicy(HttpSettings(loopback="nobody"), "main", user_of)
    assert status_of(Arrival("127.0.0.1", LOCAL, ends=OWN), nobody) == 401


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        ("192.0.2.1", LOCAL),
        ("", LOCAL),
        ("127.0.0.1", {}),
        ("127.0.0.1", {"host": "evil.example:8080"}),
        ("127.0.0.1", {**LOCAL, "origin": "http://evil.example"}),
        ("127.0.0.1", {**LOCAL, "origin": "null"}),
        ("127.0.0.1", {**LOCAL, "x-forwarded-for": "192.0.2.1"}),
        ("127.0.0.1", {**LOCAL, "forwarded": "for=192.0.2.1"}),
    ],
)
def test_what_only_seems_to_be_of_this_machine_is_refused(peer: str, headers: dict[str, str]) -> None:
    """Pages of other sites in a browser here, names that were pointed at us, what a proxy passes on."""
    assert status_of(Arrival(peer, headers, ends=OWN)) == 401


@pytest.mark.parametrize(
    ("ends", "whose"),
    [
        (None, "of an unknown user"),
        (UNKNOWN, "of an unknown user"),
        (STRANGERS, f"of user {os.geteuid() + 1}"),
    ],
)
def test_other_users_of_this_machine_need_a_token(ends: tuple[End, End] | None, whose: str) -> None:
    """They are told who they are taken for; root and the domain's own user are admitted."""
    with pytest.raises(Refusal) as raised:
        POLICY.admit(Arrival("127.0.0.1", LOCAL, ends=ends))
    assert raised.value.status == 401
    assert whose in raised.value.problem.text
    assert POLICY.admit(Arrival("127.0.0.1", LOCAL, ends=ROOTS)).grade == "admin"
    token = {**LOCAL, "authorization": "Bearer shop's"}
    assert POLICY.admit(Arrival("127.0.0.1", token, ends=ends)).name == "shop"


def test_a_client_calls_what_is_listed_and_nothing_else() -> None:
    """Patterns match whole names and are case-sensitive."""
    shop = admitted(authorization="Bearer shop's")
    allowed = [("ledger", "deposit"), ("ledger", "balance"), ("stock-7", "take")]
    assert all(shop.may_call(*each) for each in allowed)
    refused = [("ledger", "transfer"), ("ledgers", "deposit"), ("Ledger", "deposit"), ("stock", "take")]
    assert not any(shop.may_call(*each) for each in refused)
    assert (shop.may_see("ledger"), shop.may_see("secrets")) == (True, False)


def test_a_reader_looks_at_everything_and_calls_nothing_unlisted() -> None:
    """A reader is not an admin."""
    eyes = admitted(authorization="Bearer eyes'")
    assert (eyes.may_see("secrets"), eyes.may_call("secrets", "read"), eyes.has("admin")) == (
        True,
        False,
        False,
    )
