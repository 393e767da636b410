"""Identifies HTTP callers and decides which groups and methods they may call."""

import hmac
import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from holdfast.admin.client_rights import ClientRights
from holdfast.machine.peer_user import End, user_of_peer
from holdfast.net import Role
from holdfast.net.handshake import CertifiedName
from holdfast.web.problems import Refusal, refuse
from holdfast.web.settings import TOKEN_CHARACTERS_MAX, Grade, HttpSettings

ROOT: Final = 0
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""Headers that proxies add: behind a proxy, everybody seems to be on this machine."""


HttpCaller = ClientRights
"""The identified sender of a request: the same rights hold at every door."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a connection and a request's head reveal about the sender."""

    peer: str
    """The sender's address; empty if it has none."""
    headers: Mapping[str, str]
    certificate: CertifiedName | None = None
    ends: tuple[End, End] | None = None
    """The sender's end of the connection, and ours, if known."""


class AccessPolicy:
    """The HTTP clients of one domain and their rights."""

    def __init__(
        self,
        settings: HttpSettings,
        domain: str,
        user_of: Callable[[End, End], int | None] = user_of_peer,
    ) -> None:
        """*user_of* says which user of this machine is at an end of a connection."""
        self._loopback = settings.loopback
        self._users = (ROOT, os.geteuid())
        self._user_of = user_of
        self._clients = settings.clients
        self._domain = domain

    def admit(self, arrival: Arrival) -> HttpCaller:
        """Identify the sender. Raises :class:`Refusal`, which never reveals how close a guess was."""
        bearer = _bearer(arrival.headers)
        if bearer is not None:
            return self._by_token(bearer)
        if arrival.certificate is not None:
            return self._by_certificate(arrival.certificate)
        if self._loopback != "nobody" and _is_local(arrival):
            user = self._user_of(*arrival.ends) if arrival.ends is not None else None
            if user in self._users:
                return HttpCaller("loopback", self._loopback, {})
            whose = "of an unknown user" if user is None else f"of user {user}"
            raise _unknown(f"it carries no token and no certificate, and is {whose}, not of the domain's")
        raise _unknown("it carries no token and no certificate")

    def _by_token(self, token: str) -> HttpCaller:
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise _unknown("its token is nobody's")
        digest = sha256(token.encode()).hexdigest()
        found = None
        for name, client in self._clients.items():  # always all: timing reveals nothing
            if client.token_sha256 and hmac.compare_digest(client.token_sha256, digest):
                found = HttpCaller(name, client.grade, client.calls)
        if found is None:
            raise _unknown("its token is nobody's")
        return found

    def _by_certificate(self, certificate: CertifiedName) -> HttpCaller:
        if certificate.domain == self._domain and certificate.role is Role.ADMIN:
            return HttpCaller(f"admin-{certificate.id}", "admin", {})
        client = self._clients.get(certificate.id)
        if certificate.domain != self._domain or certificate.role is not Role.CLIENT or client is None:
            raise _unknown("its certificate is of nobody who may come in here")
        return HttpCaller(certificate.id, client.grade, client.calls)


def require(caller: HttpCaller, grade: Grade) -> None:
    """Raise :class:`Refusal` unless *caller* has that grade."""
    if not caller.has(grade):
        raise forbidden(f"that is for grade {grade}; {caller.name} has {caller.grade}")


def forbidden(text: str) -> Refusal:
    return refuse(403, "forbidden", text, "An admin of the domain can allow it in http.json.")


def _bearer(headers: Mapping[str, str]) -> str | None:
    """The bearer token; None without an authorization. Another scheme counts as a token that nobody has."""
    said = headers.get("authorization")
    if said is None:
        return None
    scheme, _, token = said.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_local(arrival: Arrival) -> bool:
    """Whether the request comes from this machine, and not from a foreign web page in a browser here.

    Such a page reaches us under its own host name, or names its origin.
    """
    try:
        is_loopback = ipaddress.ip_address(arrival.peer).is_loopback
    except ValueError:
        return False
    headers = arrival.headers
    if not is_loopback or any(name in headers for name in _FORWARDED):
        return False
    origin = headers.get("origin")
    is_foreign = origin is not None and origin.partition("://")[2] != headers.get("host")
    return not is_foreign and _host_name(headers.get("host", "")) in _LOCAL_NAMES


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _unknown(why: str) -> Refusal:
    advice = "Send `Authorization: Bearer TOKEN` or a client's certificate that http.json names."
    text = f"who sends this is not known: {why}"
    return refuse(401, "unauthorized", text, advice, www_authenticate="Bearer")
