"""Clients that mean no good, or cannot do better: bounded, answered as the RFCs say; nobody else waits."""

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ldap_door import ADMIN, EXAMPLE, PASSWORD, PEOPLE, SUFFIX, Door, served, start, wait_until

from holdfast.directory.filters.text import parse_filter
from holdfast.directory.operations import Scope, SearchRequest
from holdfast.directory.results import ResultCode
from holdfast.ldap.ber import Splitter
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import encode
from holdfast.ldap.messages import (
    AbandonRequest,
    BindRequest,
    ExtendedResponse,
    Message,
    Request,
    SearchResultDone,
    SearchResultEntry,
    SimpleAuthentication,
    UnbindRequest,
)

IDLE = 400
"""How many clients sit there and say nothing, in the short version."""


class Client:
    """A plain socket that speaks LDAP as badly as the test wants."""

    def __init__(self, door: Door) -> None:
        self.socket = socket.create_connection(("127.0.0.1", door.port), timeout=60)
        self._splitter = Splitter(1 << 26)

    def send(self, number: int, request: Request) -> None:
        self.send_at_once((number, request))

    def send_at_once(self, *requests: tuple[int, Request]) -> None:
        self.socket.sendall(b"".join(encode(Message(*each)) for each in requests))

    def receive(self) -> Message | None:
        """The next answer; None if the server has closed the connection."""
        while (data := self._splitter.take()) is None:
            try:
                arrived = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not arrived:
                return None
            self._splitter.feed(arrived)
        return decode(data)

    def bind(self) -> None:
        self.send(1, BindRequest(3, ADMIN, SimpleAuthentication(PASSWORD.encode())))
        assert self.receive() is not None

    def close(self) -> None:
        self.socket.close()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, ldap_utils: None) -> Iterator[Door]:
    with served(tmp_path_factory.mktemp("strangers")) as made:
        made.as_admin("ldapadd", given=EXAMPLE)
        photo = "jpegPhoto:: " + "/9j/" + "A" * 80_000
        people = "".join(
            f"dn: uid=p{i},{PEOPLE}\nobjectClass: inetOrgPerson\nuid: p{i}\ncn: p\nsn: p\n{photo}\n\n"
            for i in range(60)
        )
        made.as_admin("ldapadd", given=people)
        yield made


@pytest.fixture
def client(door: Door) -> Iterator[Client]:
    made = Client(door)
    yield made
    made.close()


def answers_others(door: Door) -> bool:
    return "uid: ada" in door.run("ldapsearch", "-x", "-LLL", "-b", SUFFIX, "(uid=ada)")


def search(filter_: str = "(objectClass=*)", *attributes: str) -> SearchRequest:
    return SearchRequest(SUFFIX, Scope.SUBTREE, parse_filter(filter_), attributes)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("3084ffffffff"),
        bytes.fromhex("3080020101"),
        bytes.fromhex("30 05 02 01 01 63 00".replace(" ", "")),
        os.urandom(4096),
    ],
)
def test_what_is_no_ldap_is_told_so_and_left(door: Door, client: Client, data: bytes) -> None:
    client.socket.sendall(data if data[:1] == b"0" else b"\x31" + data)
    notice = client.receive()
    assert notice is not None
    assert isinstance(notice.operation, ExtendedResponse)
    assert notice.operation.result.code == ResultCode.PROTOCOL_ERROR
    assert client.receive() is None
    assert answers_others(door)


def test_deep_filters_and_huge_names_are_refused(door: Door, client: Client) -> None:
    """The request is answered with what is wrong, and the connection goes on."""
    deep = b"\xa2\x00"
    for _ in range(300):
        length = len(deep)
        deep = b"\xa2" + (bytes((length,)) if length < 128 else b"\x82" + length.to_bytes(2, "big")) + deep
    whole = encode(Message(5, search("(cn=x)")))
    plain = bytes.fromhex("a3070402") + b"cn" + b"\x04\x01x"
    assert plain in whole
    inner = whole.replace(plain, deep)
    # The lengths around it are written anew: a sequence, the number, the search.
    start = inner.index(b"\x63")
    body = inner[start + 2 :]
    body = b"\x63\x82" + len(body).to_bytes(2, "big") + body
    content = b"\x02\x01\x05" + body
    client.socket.sendall(b"\x30\x82" + len(content).to_bytes(2, "big") + content)
    answer = client.receive()
    assert answer is not None
    assert isinstance(answer.operation, SearchResultDone | ExtendedResponse)
    assert answer.operation.result.code != ResultCode.SUCCESS
    other = Client(door)
    other.send(1, SearchRequest("cn=" + "x" * 20_000, Scope.BASE, parse_filter("(cn=x)")))
    refused = other.receive()
    assert refused is not None
    assert isinstance(refused.operation, SearchResultDone)
    assert refused.operation.result.code == ResultCode.INVALID_DN_SYNTAX
    other.send(2, search("(uid=ada)", "1.1"))
    found = other.receive()
    assert found is not None
    assert isinstance(found.operation, SearchResultEntry)
    other.close()


@pytest.mark.parametrize(("filter_", "count"), [("(uid=p*)", 200), ("(uid=p7)", 4_000)])
def test_a_client_that_does_not_read_costs_little(door: Door, filter_: str, count: int) -> None:
    """Its searches wait while its buffer is full: the server holds some hundred KB, not all answers."""
    slow = Client(door)
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    before = resident(door)
    for number in range(1, count):
        slow.send(number, search(filter_))  # 60 photographs of 60 KB each; or one, thousands of times
    assert answers_others(door)
    wait_until(lambda: answers_others(door))
    assert resident(door) - before < 100 << 20
    slow.close()
    assert answers_others(door)


def resident(door: Door) -> int:
    status = Path(f"/proc/{door.process.pid}/statm").read_text().split()
    return int(status[1]) * resource.getpagesize()


def test_idle_clients_do_not_keep_others_out(door: Door, rounds: object) -> None:
    """Hundreds (in the long version 10,000) connections that say nothing; all others are served."""
    assert callable(rounds)
    count = rounds(short=IDLE, long=10_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 500)), hard))
    before = resident(door)
    idle = [socket.create_connection(("127.0.0.1", door.port), timeout=60) for _ in range(count)]
    try:
        assert answers_others(door)
        assert (resident(door) - before) / count < 40_000
    finally:
        for each in idle:
            each.close()
    assert answers_others(door)


@pytest.mark.covers("CSN-96", "CSN-101")
def test_abandon_has_no_result(door: Door, client: Client) -> None:
    """The last message that comes of an abandoned search is one of its entries, or none at all."""
    client.bind()
    client.send_at_once(
        (7, search("(uid=p*)")),
        (8, AbandonRequest(7)),  # in the same write: on a busy machine, the search could be over before it
        (9, search("(uid=ada)", "1.1")),
        (10, search("(uid=p*)")),  # as long as the first: that would have ended before this one
    )
    ended = []
    while 10 not in ended:
        message = client.receive()
        assert message is not None
        if isinstance(message.operation, SearchResultDone):
            ended.append(message.message_id)
    assert ended == [9, 10]


@pytest.mark.covers("CSN-96", "CSN-100")
def test_unbind_closes_the_connection(client: Client) -> None:
    client.send(1, search())
    client.send(2, UnbindRequest())
    while client.receive() is not None:
        continue


def test_many_clients_at_once(door: Door) -> None:
    """Eight clients with sixteen searches each under way: all are answered, each under its number."""
    wrong: list[object] = []

    def ask() -> None:
        mine = Client(door)
        for number in range(1, 161):
            mine.send(number, search("(uid=ada)", "1.1"))
        left = dict.fromkeys(range(1, 161))
        while left:
            message = mine.receive()
            if message is None:
                wrong.append("closed")
                return
            if isinstance(message.operation, SearchResultDone):
                del left[message.message_id]
        mine.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert wrong == []
    assert not any(each.is_alive() for each in threads)


def test_a_full_disk_ends_the_server_and_loses_nothing(tmp_path: Path, ldap_utils: None) -> None:
    """A commit that fails is the end (D1): the process stops, and what it had answered is there."""
    with served(tmp_path) as door:
        door.as_admin("ldapadd", given=EXAMPLE)
        most = sum(each.stat().st_size for each in door.directory.rglob("*.mdb")) + (256 << 10)
        resource.prlimit(door.process.pid, resource.RLIMIT_FSIZE, (most, most))
        answered = []
        for number in range(200):
            dn = f"uid=f{number},{PEOPLE}"
            photo = "jpegPhoto:: " + "/9j/" + "A" * 40_000
            said = door.as_admin(
                "ldapadd",
                given=f"dn: {dn}\nobjectClass: inetOrgPerson\nuid: f{number}\ncn: f\nsn: f\n{photo}\n",
                ok=range(256),
            )
            if "Can't contact" in said or "ldap_add:" in said or "ldap_" in said:
                break
            answered.append(dn)
        assert door.process.wait(60) == 1
        assert 0 < len(answered) < 200
        again = start(door.directory, door.certificates)
        found = again.run("ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-b", PEOPLE, "(uid=f*)", "1.1")
        assert all(f"dn: {dn}\n" in found for dn in answered)
        again.stop()
        assert again.process.stdout is not None
        again.process.stdout.close()


def test_a_second_server_on_the_same_files_is_refused(door: Door) -> None:
    again = subprocess.run(
        [sys.executable, "-m", "holdfast", "directory", "serve", "--dir", str(door.directory), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert again.returncode == 1
    assert str(door.process.pid) in again.stderr
    assert answers_others(door)
