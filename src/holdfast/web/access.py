"""Who comes in, and which group and method they may call."""

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final

from holdfast.net import Role
from holdfast.net.handshake import CertifiedName
from holdfast.web.problems import Refusal, refuse
from holdfast.web.settings import TOKEN_CHARACTERS_MAX, Grade, HttpSettings

_RANKS: Final[dict[Grade, int]] = {"client": 1, "reader": 2, "admin": 3}
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""What proxies add: behind one, everybody seems to be on this machine."""


@dataclass(frozen=True, slots=True)
class HttpCaller:
    """Whoever sends a request, once known."""

    name: str
    grade: Grade
    calls: Mapping[str, tuple[str, ...]]

    def has(self, grade: Grade) -> bool:
        return _RANKS[self.grade] >= _RANKS[grade]

    def may_call(self, group: str, method: str) -> bool:
        if self.grade == "admin":
            return True
        return any(
            fnmatchcase(group, groups) and any(fnmatchcase(method, each) for each in methods)
            for groups, methods in self.calls.items()
        )

    def may_see(self, group: str) -> bool:
        return self.has("reader") or any(fnmatchcase(group, groups) for groups in self.calls)


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is known of a connection and of a request's head, as far as it says who is there."""

    peer: str
    """Its address; empty when it has none."""
    headers: Mapping[str, str]
    certificate: CertifiedName | None = None


class AccessPolicy:
    """The clients of one domain."""

    def __init__(self, settings: HttpSettings, domain: str) -> None:
        self._loopback = settings.loopback
        self._clients = settings.clients
        self._domain = domain

    def admit(self, arrival: Arrival) -> HttpCaller:
        """Who it is. Raises :class:`Refusal`, which never says what would have been close."""
        bearer = _bearer(arrival.headers)
        if bearer is not None:
            return self._by_token(bearer)
        if arrival.certificate is not None:
            return self._by_certificate(arrival.certificate)
        if self._loopback != "nobody" and _is_local(arrival):
            return HttpCaller("loopback", self._loopback, {})
        raise _unknown("it carries no token and no certificate")

    def _by_token(self, token: str) -> HttpCaller:
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise _unknown("its token is nobody's")
        digest = sha256(token.encode()).hexdigest()
        found = None
        for name, client in self._clients.items():  # all of them, whichever it is: time tells nothing
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
    """Raises :class:`Refusal` unless *caller* has that grade."""
    if not caller.has(grade):
        raise forbidden(f"that is for grade {grade}; {caller.name} has {caller.grade}")


def forbidden(text: str) -> Refusal:
    return refuse(403, "forbidden", text, "An admin of the domain can allow it in http.json.")


def _bearer(headers: Mapping[str, str]) -> str | None:
    """The token; None when there is none. An authorization of another kind is nobody's token."""
    said = headers.get("authorization")
    if said is None:
        return None
    scheme, _, token = said.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_local(arrival: Arrival) -> bool:
    """Whether it is from this machine, and from no page of another that a browser here shows: such a page
    reaches us under its own name, or says where it comes from."""
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
