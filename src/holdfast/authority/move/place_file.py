"""Remembers on disk where the domain's authority was found last (A8).

The file lies beside the domain's description, which says where the authority was when the machine joined. It
only saves the way: whoever starts from an older place is shown the way by the seals.
"""

from pathlib import Path
from typing import Final

import msgspec

from holdfast.authority.move.place import Place
from holdfast.machine.files import write_durably
from holdfast.model.errors import InvalidRequest

FILE_NAME: Final = "authority.json"


class Whereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """Where the authority is in its stay number *stay*."""

    stay: int
    place: Place


def read_whereabouts(directory: Path) -> Whereabouts | None:
    """Where the authority was found last; None if it was never seen to move. Raises ``InvalidRequest``."""
    file = directory / FILE_NAME
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Whereabouts)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"{file} does not say where the authority is: {error}; remove it") from None
    if problems := found.place.problems():
        raise InvalidRequest(f"{file} cannot be used: {'; '.join(problems)}")
    return found


def write_whereabouts(directory: Path, found: Whereabouts) -> None:
    """Replace what is remembered, unless a later stay is. Several processes may do so at once."""
    known = read_whereabouts(directory)
    if known is not None and known.stay > found.stay:
        return
    write_durably(directory / FILE_NAME, msgspec.json.format(msgspec.json.encode(found)) + b"\n")
