"""Puts the files of a manifest that counts into a directory, under the names that the manifest gives them.

Called in a thread or a worker: it reads and writes as much as the files hold.
"""

import os
import shutil
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

from holdfast.machine.files import (
    make_durably,
    make_private,
    open_private,
    rename_durably,
    sync_directory,
)
from holdfast.model.errors import Corruption, HoldfastError, InvalidRequest
from holdfast.shipping.manifest import DIGEST_BYTES, Contents, FileEntry
from holdfast.shipping.shelf import file_name
from holdfast.storage.volume import translated

ASIDE: Final = ".new"
PIECE_BYTES: Final = 1 << 20


def check_out(contents: Contents, shelf: Path, into: Path, *, is_shared: bool) -> None:
    """Make the directory *into*, durably and all at once, with the files of a manifest on that *shelf*.

    With *is_shared*, files are hard links: they take no room, and must never be changed. Otherwise they are
    copies, each hashed on the way, for whoever writes to them, as a database does. Raises ``InvalidRequest``
    when *into* exists, ``Corruption`` for a file that is damaged by now, ``NoSpace`` or ``DiskFailed``.
    """
    if into.exists():
        raise InvalidRequest(f"{into} exists already: files are checked out into a directory of their own")
    aside = into.with_name(into.name + ASIDE)
    try:
        make_durably(into.parent)
        shutil.rmtree(aside, ignore_errors=True)
        make_private(aside)
        for file in contents.manifest.files:
            target = aside / file.name
            make_private(target.parent)
            if is_shared:
                os.link(shelf / file_name(file), target)
            else:
                _copy(shelf / file_name(file), target, file)
        for directory in (aside, *_directories(aside)):
            sync_directory(directory)
        rename_durably(aside, into)
    except OSError as error:
        raise translated(error, str(into)) from error


def _copy(source: Path, target: Path, file: FileEntry) -> None:
    found = blake2b(digest_size=DIGEST_BYTES)
    with source.open("rb", buffering=0) as read, open_private(target, os.O_WRONLY) as written:
        while piece := read.read(PIECE_BYTES):
            found.update(piece)
            written.write(piece)
        written.flush()
        os.fsync(written.fileno())
    if found.digest() != file.digest:
        raise _damage(file, found.digest())


def _damage(file: FileEntry, found: bytes) -> HoldfastError:
    return Corruption(
        "a file on the shelf; fetch its manifest again, which mends it",
        file=file.name,
        offset=0,
        expected=file.digest.hex()[:12],
        found=found.hex()[:12],
    )


def _directories(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_dir())
