"""What clients ask: few names and few values, so that they collide."""

import random
from typing import Final

from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    Change,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
)
from holdfast.directory.replica.replica import Replica
from holdfast.sim.scenarios.directory.site import SUFFIX

RDNS: Final = ("cn=x", "cn=y", "cn=z")
VALUES: Final = (b"one", b"two", b"Two", b"three")
WHO: Final = f"cn=admin,{SUFFIX}"


def founding() -> list[Change]:
    """The tree that all begin with."""
    top = AddRequest(SUFFIX, (Attribute("objectClass", (b"top", b"domain")), Attribute("dc", (b"example",))))
    return [top, *(_person(f"{rdn},{SUFFIX}", rdn, b"one") for rdn in RDNS[:2])]


def _person(dn: str, rdn: str, value: bytes) -> AddRequest:
    return AddRequest(
        dn,
        (
            Attribute("objectClass", (b"top", b"person", b"organizationalPerson", b"inetOrgPerson")),
            Attribute("cn", (rdn.removeprefix("cn=").encode(),)),
            Attribute("sn", (value,)),
        ),
    )


def drawn(rng: random.Random, replica: Replica) -> Change:
    """A random operation on names that may be there."""
    name = _name(rng, replica)
    rdn = rng.choice(RDNS)
    value = rng.choice(VALUES)
    match rng.choices(range(5), (4, 2, 6, 2, 3))[0]:
        case 0:
            return _person(f"{rdn},{_name(rng, replica)}", rdn, value)
        case 1:
            return DeleteRequest(name)
        case 2:
            return ModifyRequest(name, (_modification(rng, value),))
        case 3:
            return ModifyDnRequest(name, rdn, delete_old_rdn=rng.random() < 0.5)
        case _:
            same = name.partition(",")[0]
            return ModifyDnRequest(name, same, delete_old_rdn=False, new_superior=_name(rng, replica))


def _modification(rng: random.Random, value: bytes) -> Modification:
    kind = rng.choice((ModificationKind.ADD, ModificationKind.DELETE, ModificationKind.REPLACE))
    if rng.random() < 0.3:
        values = (value,) if rng.random() < 0.8 else ()
        return Modification(ModificationKind.REPLACE, "employeeNumber", values)
    values = () if kind is not ModificationKind.ADD and rng.random() < 0.3 else (value,)
    return Modification(kind, "description", values)


def _name(rng: random.Random, replica: Replica) -> str:
    """Mostly a name that is there, so that operations have something to work on."""
    snapshot = replica.snapshot()
    top = snapshot.top()
    known = [] if top is None else [snapshot.dn(each)[0] for each in snapshot.subtree(top)]
    snapshot.close()
    if known and rng.random() < 0.9:
        return rng.choice(sorted(known))
    return f"{rng.choice(RDNS)},{SUFFIX}"
