"""Which hosts are to be emptied: a wish, kept here until the state context keeps them all (PROTOCOL T1)."""

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.outcome import (
    ATTEMPTS_MAX,
    Contended,
    InDoubt,
    Listing,
    Seen,
    answering,
    change,
    put,
    read,
    read_all,
)
from holdfast.authority.recipe import Recipe
from holdfast.model.ids import HostId, Nonce


class HostWish(msgspec.Struct, frozen=True, kw_only=True, tag="host_wish"):
    """What is wished for one host. Once written it is never removed."""

    host: HostId
    is_draining: bool
    """It shall have no members."""
    nonce: Nonce


@answering
def set_draining(
    host: HostId, is_draining: bool, *, nonce: Nonce
) -> Recipe[Seen[HostWish] | Contended | InDoubt]:
    """Let *host* be emptied, or take members again. The last word counts."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.host_wish(host), HostWish)
        if found.value is not None and found.value.is_draining == is_draining:
            return Seen(found.key, found.value, found.modified)
        wish = HostWish(host=host, is_draining=is_draining, nonce=nonce)
        result = yield from change([found.unchanged()], [put(found.key, wish)], nonce=nonce)
        if isinstance(result, Applied):
            return Seen(found.key, wish, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the wish for {host}")


@answering
def list_host_wishes() -> Recipe[Listing[HostWish]]:
    return (yield from read_all(keys.HOST_WISHES, HostWish))
