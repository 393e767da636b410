"""How many queries one process answers (CSN-108): many in flight, over a socket, about entries at random."""

import random
import socket
import time

import pytest
from ldap_door import PEOPLE, Door

from holdfast.directory.filters.text import parse_filter
from holdfast.directory.operations import Scope, SearchRequest
from holdfast.ldap.ber import Splitter
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import encode
from holdfast.ldap.messages import Message, SearchResultDone, SearchResultEntry

PERSONS = 500
QUERIES = 10_000
IN_FLIGHT = 64
WANTED = 5_000
"""Queries for each second of a processor, of which the source promises as many."""
PROCESS_CLOCK = 2


def cpu_s(pid: int) -> float:
    """What the process has used of a processor: the machine may be busy with other things meanwhile."""
    return time.clock_gettime((~pid << 3) | PROCESS_CLOCK)


@pytest.mark.covers("CSN-108")
def test_more_than_5000_queries_a_second(door: Door) -> None:
    """A second of one processor answers more than 5,000 searches by uid, each with its entry."""
    door.as_admin("ldapadd", given="\n".join(map(person, range(PERSONS))))
    order = random.Random(7)
    asked = [order.randrange(PERSONS) for _ in range(QUERIES)]
    splitter = Splitter(1 << 26)
    done, entries = 0, 0
    with socket.create_connection(("127.0.0.1", door.port), timeout=60) as client:
        before = cpu_s(door.process.pid)
        sent = 0
        while done < QUERIES:
            room = asked[sent : done + IN_FLIGHT]
            client.sendall(b"".join(query(sent + at, number) for at, number in enumerate(room)))
            sent += len(room)
            splitter.feed(client.recv(1 << 16))
            while (data := splitter.take()) is not None:
                message = decode(data)
                if isinstance(message.operation, SearchResultEntry):
                    number = asked[message.message_id - 1]
                    assert message.operation.dn == f"uid=rate{number},{PEOPLE}"
                    entries += 1
                else:
                    assert isinstance(message.operation, SearchResultDone)
                    done += 1
        took_s = cpu_s(door.process.pid) - before
    assert entries == QUERIES
    assert QUERIES / took_s > WANTED


def person(number: int) -> str:
    uid = f"rate{number}"
    return f"dn: uid={uid},{PEOPLE}\nobjectClass: inetOrgPerson\ncn: {uid}\nsn: {uid}\nuid: {uid}\n"


def query(at: int, number: int) -> bytes:
    request = SearchRequest(PEOPLE, Scope.SUBTREE, parse_filter(f"(uid=rate{number})"), ())
    return encode(Message(at + 1, request))
