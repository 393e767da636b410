"""The URL of a domain, as clients and commands are given it."""

from holdfast.model.errors import InvalidRequest
from holdfast.model.reference import SCHEME
from holdfast.net import Address


def parse_url(url: str) -> tuple[str, list[Address], str | None]:
    """The domain's name, the addresses, and the client's key in *url*. Raises ``InvalidRequest``."""
    hosts, slash, domain = url.removeprefix(SCHEME).partition("/")
    key, at, hosts = hosts.rpartition("@")
    if not url.startswith(SCHEME) or not slash:
        shown = f"{SCHEME}...@{hosts}" if at else url
        raise InvalidRequest(f"{shown!r}: must be {SCHEME}[NAME:KEY@]host:port[,host:port...]/domain")
    return domain, [Address.parse(text) for text in hosts.split(",")], key if at else None
