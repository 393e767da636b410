"""The machines of a domain: which there are, which hosts each has, and which agent speaks for those hosts.

A machine joins once. Its record says so until it is removed, and stays as removed afterwards, so that a
machine that comes back after it was given up finds out and does not serve (V7). A removed machine's name may
be used again by another, which has another token.

Every change of a record also changes the guard, because a host may be on one machine only: that is a
statement about all records.
"""

from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    Guard,
    InDoubt,
    Listing,
    Recipe,
    Removed,
    Seen,
    answering,
    change,
    put,
    read,
    read_all,
)
from holdfast.model.ids import HostId, Nonce

MACHINES_MAX: Final = 1_000
"""The most machines that a domain ever has, removed ones included: all are read whenever one changes."""


class MachineRecord(msgspec.Struct, frozen=True, kw_only=True, tag="machine"):
    """One machine, as it described itself when it last started."""

    machine: str
    token: str
    """Made with the machine's description; tells it from another machine of the same name."""
    agent: str
    """The id of the only agent whose proofs of death of these hosts are believed (K2)."""
    agent_address: str
    hosts: tuple[HostId, ...]
    location: str = ""
    serves_authority: bool = False
    """Whether the domain's embedded authority is on this machine."""
    insecure: bool = False
    """Whether it sends plain TCP to other machines."""
    is_removed: bool = False
    nonce: Nonce = Nonce("")


class NotAdmitted(msgspec.Struct, frozen=True, tag="not_admitted"):
    """The machine cannot join; *why* says what would have to be different."""

    why: str


@answering
def join_machine(
    wanted: MachineRecord, *, nonce: Nonce
) -> Recipe[Seen[MachineRecord] | NotAdmitted | Contended | InDoubt]:
    """Enter a machine, or renew what is known of it, unless its name or a host of it is taken."""
    wanted = msgspec.structs.replace(wanted, nonce=nonce)
    for _ in range(ATTEMPTS_MAX):
        guard = yield from read(keys.MACHINE_GUARD, Guard)
        found = yield from read(keys.machine(wanted.machine), MachineRecord)
        if found.value is not None and msgspec.structs.replace(found.value, nonce=nonce) == wanted:
            return Seen(found.key, found.value, found.modified)
        listing = yield from read_all(keys.MACHINES, MachineRecord)
        why = _why_not(wanted, [each.value for each in listing.items])
        if why is not None:
            return NotAdmitted(why)
        result = yield from change(
            [guard.unchanged(), found.unchanged()],
            [put(found.key, wanted), put(keys.MACHINE_GUARD, Guard(nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, wanted, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the machine {wanted.machine}")


@answering
def remove_machine(machine: str, *, nonce: Nonce) -> Recipe[Removed | Contended | InDoubt]:
    """Note that a machine is of the domain no more. Its hosts' members are others' business."""
    for _ in range(ATTEMPTS_MAX):
        guard = yield from read(keys.MACHINE_GUARD, Guard)
        found = yield from read(keys.machine(machine), MachineRecord)
        if found.value is None or found.value.is_removed:
            return Removed()
        gone = msgspec.structs.replace(found.value, is_removed=True, nonce=nonce)
        result = yield from change(
            [guard.unchanged(), found.unchanged()],
            [put(found.key, gone), put(keys.MACHINE_GUARD, Guard(nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Removed()
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the machine {machine}")


@answering
def list_machines() -> Recipe[Listing[MachineRecord]]:
    """List every machine, sorted by name, removed ones included."""
    return (yield from read_all(keys.MACHINES, MachineRecord))


def _why_not(wanted: MachineRecord, known: list[MachineRecord]) -> str | None:
    others = [each for each in known if each.machine != wanted.machine]
    for each in known:
        if each.machine != wanted.machine:
            continue
        if each.token == wanted.token and each.is_removed:
            return (
                f"machine {wanted.machine} was removed from the domain: to let it join again, make it anew "
                "with `holdfast machine init` in an empty directory"
            )
        if each.token != wanted.token and not each.is_removed:
            return (
                f"the domain has a machine {wanted.machine} at {each.agent_address} already: give this one "
                f"another name, or remove that one with `holdfast machine remove {wanted.machine}`"
            )
    for each in others:
        shared = sorted(set(each.hosts) & set(wanted.hosts))
        if shared and not each.is_removed:
            return f"host {shared[0]} is on machine {each.machine} already: a host is on one machine"
    if len(others) >= MACHINES_MAX:
        return f"the domain has had {len(others)} machines; {MACHINES_MAX} may be"
    return None
