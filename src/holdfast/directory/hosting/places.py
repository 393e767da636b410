"""Where on a host's disk the files of a suffix are.

The first suffix of a host has the service's own directory, as hosts always had it; each further one has a
directory below it. Which is the first is written down before its files are made.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

from holdfast.machine.files import make_durably, write_durably

OWNER: Final = "suffix"
"""The file that says whose the service's own directory is."""
FURTHER: Final = "suffixes"
IDENTITY: Final = "identity"
STORE: Final = "store"
HOSTED: Final = "hosts/*/services/directory"
"""Where, below the directory of a domain, the files of its hosts on this machine are."""
WORD_MAX: Final = 200
"""A file's name has 255 bytes at most."""


def place_of(directory: Path, suffix: str, *, was_here: bool) -> Path:
    """Where the files of *suffix* are or shall be, below the service's *directory*. *was_here* says whether
    this host had a replica of it before. Raises ``OSError``."""
    owner = _owner(directory)
    if owner is None and (was_here or not (directory / IDENTITY).exists()):
        # Files without an owner are those of the only suffix that there was when they were made.
        write_durably(directory / OWNER, suffix.encode())
        owner = suffix
    if owner == suffix:
        return directory
    place = further_place(directory, suffix)
    make_durably(place)
    return place


def further_place(directory: Path, suffix: str) -> Path:
    """Where a suffix that is not the first one has its files."""
    word = quote(suffix, safe="=,")
    if len(word) > WORD_MAX:
        word = sha256(suffix.encode()).hexdigest()
    return directory / FURTHER / word


def places(directory: Path) -> Iterator[Path]:
    """The directories of all suffixes whose files are below *directory*."""
    yield directory
    further = directory / FURTHER
    if further.is_dir():
        yield from sorted(further.iterdir())


def why_none(directory: Path) -> str:
    """What to say to someone who looks for the files of a master in *directory*, where none are."""
    hosted = sorted(directory.glob(HOSTED))
    if hosted:
        return (
            f"{directory} is a domain; the files of its masters are in {', '.join(map(str, hosted))}: "
            "name one of these to read them, and change things over LDAP"
        )
    return f"{directory} holds no directory; `directory init --dir {directory} --suffix ...` makes one"


def _owner(directory: Path) -> str | None:
    try:
        return (directory / OWNER).read_bytes().decode()
    except FileNotFoundError:
        return None
