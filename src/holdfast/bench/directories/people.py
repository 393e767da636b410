"""The persons that every directory is loaded with: an LDIF file, the same for each number of them."""

from pathlib import Path
from typing import Final

from holdfast.bench.directories import PEOPLE, SUFFIX

DIGITS: Final = 7
"""How long a person's number is written: the load generator writes it with leading zeros."""
GIVEN: Final = ("Ada", "Barbara", "Edsger", "Grace", "Leslie", "Nancy", "Niklaus", "Tony")
SURNAMES: Final = (
    "Dijkstra",
    "Hamilton",
    "Hoare",
    "Hopper",
    "Lamport",
    "Liskov",
    "Lovelace",
    "Lynch",
    "Wirth",
)


def write_people(file: Path, persons: int, *, is_whole: bool = True) -> None:
    """Write the suffix, unless it *is not whole*, the unit and *persons* entries of eleven attributes."""
    with file.open("w", encoding="ascii") as out:
        if is_whole:
            out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        out.write(f"dn: {PEOPLE}\nobjectClass: organizationalUnit\nou: people\n\n")
        for number in range(persons):
            out.write(person(number))


def person(number: int) -> str:
    """One person, as LDIF."""
    uid = f"person{number:0{DIGITS}d}"
    given, surname = GIVEN[number % len(GIVEN)], SURNAMES[number % len(SURNAMES)]
    return (
        f"dn: uid={uid},{PEOPLE}\n"
        "objectClass: top\nobjectClass: person\n"
        "objectClass: organizationalPerson\nobjectClass: inetOrgPerson\n"
        f"uid: {uid}\ncn: {given} {surname} {number}\nsn: {surname}\ngivenName: {given}\n"
        f"mail: {uid}@example.com\ntelephoneNumber: +1 555 {number:07d}\n"
        f"employeeNumber: {number}\ntitle: engineer\nl: Pittsburgh\n"
        f"description: {given} {surname} works on the directory since {1980 + number % 40}\n\n"
    )
