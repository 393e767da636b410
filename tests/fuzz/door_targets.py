"""What is fuzzed of the LDAP door: whole conversations, with a replica behind them.

As in :mod:`targets`, each target takes any bytes, and raises only when Holdfast is wrong.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).parents[1] / "unit"))

from directory_replica import ADMIN, SUFFIX, derived_rows, modify, person, rename, stored_rows
from ldap_session import PASSWORD, Door
from ldap_twins import EVERYTHING, PLAIN, Twins

from holdfast.directory import operations
from holdfast.directory.filters.text import parse_filter
from holdfast.directory.replica.ready import decoded_ready
from holdfast.ldap import controls, extended
from holdfast.ldap.encoding import encode
from holdfast.ldap.messages import (
    AbandonRequest,
    BindRequest,
    ExtendedRequest,
    Message,
    SimpleAuthentication,
    UnbindRequest,
)

PEOPLE: Final = f"ou=people,{SUFFIX}"
CHECK_EVERY: Final = 50


class Fuzzed:
    """One door for all inputs: what one leaves behind, the next one meets."""

    def __init__(self) -> None:
        self.door = Door()
        self.count = 0


@cache
def fuzzed() -> Fuzzed:
    return Fuzzed()


def session(data: bytes) -> None:
    """Any bytes are a conversation that ends with everything given back, and the replica in one piece."""
    state = fuzzed()
    state.count += 1
    door = state.door
    client = door.client(can_start_tls=True)
    client.bind()
    client.answers()
    client.session.receive(data)
    if client.wire.tls_started:
        client.session.on_tls(None)
    door.settle()
    client.answers()
    client.session.close()
    door.clients.remove(client)
    assert (door.service.searches, door.service.pages) == (0, 0)
    assert door.master.generator.status().in_flight == 0
    if state.count % CHECK_EVERY == 0:
        assert stored_rows(door.master, decoded_ready) == derived_rows(door.master.replica)


@cache
def twins() -> Twins:
    return Twins()


def quick(data: bytes) -> None:
    """Any bytes are answered alike whether or not plain searches are answered at one go."""
    ours, usual, _ = twins().answers(data)
    assert ours == usual


def _search(filter_: str, *attributes: str) -> operations.SearchRequest:
    return operations.SearchRequest(SUFFIX, operations.Scope.SUBTREE, parse_filter(filter_), attributes)


REQUESTS: Final = (
    Message(1, person("a", userPassword="x", mail="a@b")),
    Message(2, modify(f"uid=a,{PEOPLE}", ("add", "description", "d"), ("replace", "sn", "s"))),
    Message(3, rename(f"uid=a,{PEOPLE}", "uid=b", PEOPLE)),
    Message(4, operations.DeleteRequest(f"uid=b,{PEOPLE}")),
    Message(5, operations.CompareRequest(PEOPLE, "ou", b"people")),
    *(
        Message(
            6,
            _search(each, "*", "+"),
            (
                controls.write_paged_results(controls.PagedResults(1)),
                controls.write_sort_keys((controls.SortKey("uid", None, True),)),
            ),
        )
        for each in ("(cn=*a*)", "(&(uid=a)(sn>=a))", "(|(mail=*)(!(ou:dn:=people)))")
    ),
    Message(7, ExtendedRequest(extended.WHO_AM_I)),
    Message(8, ExtendedRequest(extended.START_TLS)),
    Message(9, extended.write_password_modify(extended.PasswordModify(ADMIN, PASSWORD, PASSWORD))),
    Message(10, BindRequest(3, ADMIN, SimpleAuthentication(PASSWORD))),
    Message(11, AbandonRequest(6)),
    Message(12, operations.SearchRequest("cn=config", operations.Scope.SUBTREE, parse_filter("(cn=*)"))),
    Message(13, UnbindRequest()),
)

TARGETS: Final[dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]]] = {
    "ldap_session": (
        session,
        (*map(encode, REQUESTS), b"".join(map(encode, REQUESTS[:6])), b"".join(map(encode, REQUESTS[6:]))),
    ),
    "ldap_quick": (quick, (*EVERYTHING, b"".join(encode(Message(9, each)) for each in PLAIN))),
}
