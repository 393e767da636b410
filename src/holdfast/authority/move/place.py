"""Where an authority is: the address of an embedded one, or the endpoints and settings of an etcd."""

from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.model.errors import InvalidRequest

ENDPOINTS_MAX = 16
"""More endpoints than any etcd cluster has members; each is tried in turn within one deadline."""
PREFIX_BYTES_MAX = 128
"""The longest key prefix; keys may then still have their full length within etcd's limits."""
ETCD_PORT = 2379
ETCD_SCHEME = "etcd://"


class EtcdAccess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """With what an etcd lets us in. File names are relative to the domain's directory, so that a place which
    one machine wrote down is good on all of them; no secret is in here."""

    prefix: str = ""
    """Stands before every key and separates this domain from all others on the same etcd; empty for the
    domain's id."""
    ca: str = ""
    """The certificate file of the authority that signed etcd's own certificate; empty for the system's."""
    certificate: str = ""
    """The client's certificate file, if etcd asks for one."""
    key: str = ""
    """The key file of that certificate."""
    user: str = ""
    password_file: str = ""
    """The file that holds the user's password, readable by its owner alone."""

    @property
    def has_tls_files(self) -> bool:
        return bool(self.ca or self.certificate)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.ca, self.certificate, self.key, self.password_file)))


class EtcdSettings(EtcdAccess, frozen=True, kw_only=True, omit_defaults=True):
    """Which etcd, and with what it lets us in."""

    endpoints: tuple[str, ...]
    """Client URLs, with ``https`` where etcd uses TLS."""

    def problems(self) -> list[str]:
        """What is wrong with these settings, in words."""
        found = []
        if not 1 <= len(self.endpoints) <= ENDPOINTS_MAX:
            found.append(f"an etcd has 1 to {ENDPOINTS_MAX} endpoints, not {len(self.endpoints)}")
        for endpoint in self.endpoints:
            scheme, _, where = endpoint.partition("://")
            if scheme not in ("http", "https") or not where.strip("/"):
                found.append(f"{endpoint!r} is no endpoint of an etcd; write http://HOST:PORT or https://…")
        if not self.prefix.endswith("/") or not 1 < len(self.prefix.encode()) <= PREFIX_BYTES_MAX:
            found.append(
                f"the key prefix {self.prefix!r} must end with / and have 2 to {PREFIX_BYTES_MAX} bytes"
            )
        if bool(self.certificate) != bool(self.key):
            found.append("a client certificate and its key go together: give both files or neither")
        if bool(self.user) != bool(self.password_file):
            found.append("an etcd user needs a password: give the file that holds it, and the user")
        if self.has_tls_files and not all(each.startswith("https://") for each in self.endpoints):
            found.append("certificates are for https endpoints; these are not all https")
        found += [f"{name} leads out of the domain's directory" for name in self.files if _leads_out(name)]
        return found


class Place(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an authority can be asked."""

    kind: Literal["sqlite", "etcd"]
    address: str = ""
    """HOST:PORT of the embedded authority."""
    etcd: EtcdSettings | None = None

    def problems(self) -> list[str]:
        if self.kind == "sqlite":
            return [] if self.address else ["an embedded authority needs an address"]
        return ["an etcd needs its endpoints"] if self.etcd is None else self.etcd.problems()

    @property
    def where(self) -> str:
        """Its address, or its endpoints."""
        return self.address if self.etcd is None else ",".join(self.etcd.endpoints)

    def __str__(self) -> str:
        if self.etcd is None:
            return f"sqlite at {self.address}"
        return f"etcd at {','.join(each.partition('://')[2] for each in self.etcd.endpoints)}"


def sqlite_at(address: str) -> Place:
    return Place(kind="sqlite", address=address)


def etcd_for(domain: str, endpoints: tuple[str, ...], access: EtcdAccess) -> Place:
    """The etcd of a domain, whose keys stand under its id unless *access* names another prefix."""
    given = {name: getattr(access, name) for name in access.__struct_fields__}
    prefix = access.prefix or f"{domain}/"
    return etcd_at(EtcdSettings(**{**given, "endpoints": endpoints, "prefix": prefix}))


def etcd_at(settings: EtcdSettings) -> Place:
    return Place(kind="etcd", etcd=settings)


def moved_to(place: Place, stay: int) -> Place:
    """*place* for a domain that comes there for its stay number *stay*.

    Each stay at an etcd has a prefix of its own, so that whoever still believes in an earlier stay finds the
    seal of that one, and reads nothing of this.
    """
    if place.etcd is None:
        return place
    prefix = f"{place.etcd.prefix.rstrip('/')}.{stay}/"
    return etcd_at(msgspec.structs.replace(place.etcd, prefix=prefix))


def parse_endpoints(text: str, *, is_tls: bool) -> tuple[str, ...]:
    """The endpoints in ``etcd://a:2379,b`` or ``http://a:2379,…``. Raises ``InvalidRequest`` for others."""
    listed = text.removeprefix(ETCD_SCHEME)
    endpoints = []
    for each in filter(None, (part.strip() for part in listed.split(","))):
        if "://" in each:
            endpoints.append(each.rstrip("/"))
            continue
        scheme = "https" if is_tls else "http"
        has_port = each.rpartition("]")[2].rpartition(":")[1] == ":"
        endpoints.append(f"{scheme}://{each if has_port else f'{each}:{ETCD_PORT}'}")
    if not endpoints:
        raise InvalidRequest(f"{text!r} names no etcd; write etcd://HOST:PORT,HOST:PORT,…")
    return tuple(endpoints)


def _leads_out(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/")
