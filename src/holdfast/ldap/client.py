"""A small LDAP client for our own commands: bind, search in pages, modify; one request at a time.

It blocks. Programs have better ones (ldap3, python-ldap); this one saves our commands a dependency, and
shows the server's sentence as it is.
"""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from holdfast.directory.filters.text import parse_filter
from holdfast.directory.operations import Change, Scope, SearchRequest
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.ber import BerError, Splitter
from holdfast.ldap.controls import PAGED_RESULTS, PagedResults, read_paged_results, write_paged_results
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import encode
from holdfast.ldap.messages import (
    VERSION,
    BindRequest,
    BindResponse,
    Control,
    Message,
    Request,
    Result,
    SearchResultDone,
    SearchResultEntry,
    SimpleAuthentication,
    UnbindRequest,
)
from holdfast.model.errors import InvalidRequest, Unavailable

TIMEOUT_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 16 << 20
"""How long an answer may be: the largest entry, with room."""
PAGE_ENTRIES: Final = 500
PORTS: Final = {"ldap": 389, "ldaps": 636}


class LdapClient:
    """One connection. Raises ``DirectoryError`` with what the server said, ``Unavailable`` if it says
    nothing."""

    def __init__(self, url: str, *, ca: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """*url* is such as ldap://127.0.0.1:1389 or ldaps://...; *ca* a file with certificates to trust."""
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/"):
            raise InvalidRequest(f"an address is such as ldap://127.0.0.1:1389, not {url!r}")
        self.url = url
        self._number = 0
        self._splitter = Splitter(ANSWER_BYTES_MAX)
        try:
            plain = socket.create_connection((parts.hostname, parts.port or PORTS[parts.scheme]), timeout_s)
            if parts.scheme == "ldaps":
                context = ssl.create_default_context(cafile=ca)
                self._socket: socket.socket = context.wrap_socket(plain, server_hostname=parts.hostname)
            else:
                self._socket = plain
        except (OSError, ValueError) as error:
            raise Unavailable(f"{url} cannot be reached: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        with suppress(Unavailable):  # it has gone already
            self._send(UnbindRequest())
        self._socket.close()

    def bind(self, dn: str, password: bytes) -> None:
        number = self._send(BindRequest(VERSION, dn, SimpleAuthentication(password)))
        answer = self._answer(number).operation
        if isinstance(answer, BindResponse):
            self._insist(answer.result)

    def search(
        self,
        base: str,
        scope: Scope = Scope.SUBTREE,
        filter_: str = "(objectClass=*)",
        attributes: tuple[str, ...] = (),
    ) -> Iterator[SearchResultEntry]:
        """All that is found, from one moment of the server."""
        request = SearchRequest(base, scope, parse_filter(filter_), attributes)
        paged: PagedResults | None = PagedResults(PAGE_ENTRIES)
        while paged is not None:
            number = self._send(request, (write_paged_results(paged, is_critical=False),))
            paged = None
            while True:
                message = self._answer(number)
                match message.operation:
                    case SearchResultEntry() as entry:
                        yield entry
                    case SearchResultDone(result=result):
                        self._insist(result)
                        paged = _next_page(message.controls)
                        break
                    case _:
                        pass  # a referral: our servers send none for what commands ask

    def change(self, request: Change) -> None:
        """Have something changed, and wait until it is."""
        number = self._send(request)
        result = getattr(self._answer(number).operation, "result", None)
        if isinstance(result, Result):
            self._insist(result)

    def _insist(self, result: Result) -> None:
        if result.code != ResultCode.SUCCESS:
            known = ResultCode(result.code) if result.code in list(ResultCode) else ResultCode.OTHER
            raise DirectoryError(known, f"{self.url}: {result.diagnostic or known.name.lower()}")

    def _send(self, request: Request, controls: tuple[Control, ...] = ()) -> int:
        self._number += 1
        try:
            self._socket.sendall(encode(Message(self._number, request, controls)))
        except OSError as error:
            raise Unavailable(f"{self.url} has gone: {error}") from error
        return self._number

    def _answer(self, number: int) -> Message:
        while True:
            try:
                data = self._splitter.take()
                if data is None:
                    arrived = self._socket.recv(1 << 16)
                    if not arrived:
                        raise Unavailable(f"{self.url} closed the connection")
                    self._splitter.feed(arrived)
                    continue
                message = decode(data)
            except (OSError, BerError) as error:
                raise Unavailable(f"{self.url} does not answer as LDAP servers do: {error}") from error
            if message.message_id == number:
                return message
            if message.message_id == 0:  # a notice of disconnection
                raise Unavailable(
                    f"{self.url} ended the connection: {getattr(message.operation, 'result', '')}"
                )


def _next_page(controls: tuple[Control, ...]) -> PagedResults | None:
    for each in controls:
        if each.oid == PAGED_RESULTS and each.value is not None:
            cookie = read_paged_results(each.value).cookie
            return PagedResults(PAGE_ENTRIES, cookie) if cookie else None
    return None
