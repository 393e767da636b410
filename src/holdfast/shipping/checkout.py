"""Puts the files of a manifest that counts into a directory, under the names that the manifest gives them.

Called in a thread or a worker: it reads and writes as much as the files hold.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from holdfast.machine.files import (
    make_durably,
    make_private,
    open_private,
    rename_durably,
    sync_directory,
)
from holdfast.model.errors import Corruption, InvalidRequest
from holdfast.shipping.manifest import Chunk, Contents, digest_of
from holdfast.shipping.shelf import file_name
from holdfast.storage.volume import translated

ASIDE: Final = ".new"


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
                _copy(shelf / file_name(file), target, contents.chunks(file))
        for directory in (aside, *_directories(aside)):
            sync_directory(directory)
        rename_durably(aside, into)
    except OSError as error:
        raise translated(error, str(into)) from error


def _copy(source: Path, target: Path, chunks: Iterable[Chunk]) -> None:
    with source.open("rb", buffering=0) as read, open_private(target, os.O_WRONLY) as written:
        for chunk in chunks:
            data = os.pread(read.fileno(), chunk.length, chunk.offset)
            found = digest_of(data)
            if found != chunk.digest:
                raise Corruption(
                    "a file on the shelf; fetch its manifest again, which mends it",
                    file=chunk.file.name,
                    offset=chunk.offset,
                    expected=chunk.digest.hex()[:12],
                    found=found.hex()[:12],
                )
            written.write(data)
        written.flush()
        os.fsync(written.fileno())


def _directories(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_dir())
