"""Stores the source code of classes by digest, so that what they recorded can be replayed later (E7).

::

    hosts/<id>/code/<digest>/code.json     what it is
    hosts/<id>/code/<digest>/modules/…     the modules, as they are imported

A copy is written under a temporary name, synced and renamed before a member with that code runs here, and so
before the first record it makes can be acknowledged. Whether a copy is complete is checked by computing its
digest again.
"""

import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from holdfast.app_code.digest import (
    BYTES_MAX,
    CLASS_MODULES_MAX,
    ClassCode,
    ModuleText,
    digest_of_all,
    python_here,
)
from holdfast.app_code.finder import SOURCE_BYTES_MAX, BadClass
from holdfast.machine.files import make_durably, rename_durably, sync_directory
from holdfast.model.code import Code

CODE: Final = "code"
"""The directory of the copies inside the host's directory."""
MANIFEST: Final = "code.json"
MODULES: Final = "modules"
SPARE_MAX: Final = 16
"""The most copies kept although nothing here needs them: the latest edits, to which somebody may return."""
SPARE_BYTES_MAX: Final = 64 << 20
_ASIDE: Final = ".part"
_FORM: Final = 1


class KeptModule(msgspec.Struct, frozen=True):
    module: str
    is_package: bool
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The description stored with a copy."""

    form: int = _FORM
    digest: str
    version: str
    """The version that the class declared."""
    python: str
    """For people to read."""
    modules: tuple[KeptModule, ...]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.modules)


class CodeCopies:
    """The copies in *directory*, which is the host's own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / CODE
        self._whole: dict[str, None] = {}
        """The digests of the copies that this process has verified or written."""

    def keep(self, found: ClassCode) -> bool:
        """Store a copy durably and return whether it is new.

        Code without sources to store is not stored. Raises ``OSError``.
        """
        digest = found.code.digest
        if not found.modules or not digest:
            return False
        if self.is_kept(found.code):
            os.utime(self._at(digest))  # marks the copy as used now
            return False
        if not self._directory.is_dir():
            self._directory.mkdir(mode=0o700)
            make_durably(self._directory)
        aside = self._at(digest + _ASIDE)
        for left in (aside, self._at(digest)):  # left by a process that died here, or damaged
            shutil.rmtree(left, ignore_errors=True)
        _write(aside, found)
        rename_durably(aside, self._at(digest))
        self._whole[digest] = None
        return True

    def is_kept(self, code: Code) -> bool:
        """Whether there is a complete copy of *code*."""
        return self.modules_of(code) is not None

    def modules_of(self, code: Code) -> Path | None:
        """The directory of its modules, to import from; None when there is no complete copy."""
        path = self._at(code.digest) / MODULES
        if not _is_digest(code.digest) or not path.is_dir():
            self._whole.pop(code.digest, None)
            return None
        if code.digest not in self._whole:
            if not self._is_whole(code.digest):
                return None
            self._whole[code.digest] = None
        return path

    def is_in(self, code: Code, app: Path) -> bool:
        """Whether *app*, a directory of the application, holds the same modules as the copy of *code*."""
        manifest = self._manifest(code.digest) if self.is_kept(code) else None
        return manifest is not None and _has(app, manifest)

    def listed(self) -> list[Manifest]:
        """All copies, most recently used first."""
        found = []
        for path in self._paths():
            manifest = self._manifest(path.name)
            if manifest is not None:
                found.append((path.stat().st_mtime_ns, manifest))
        return [manifest for _, manifest in sorted(found, key=lambda each: -each[0])]

    def prune(self, needed: Collection[str]) -> list[str]:
        """Remove the copies that *needed* does not name, except the few used last.

        Return the removed digests. Raises ``OSError``.
        """
        removed, spare, size = [], 0, 0
        for each in self.listed():
            if each.digest in needed:
                continue
            spare, size = spare + 1, size + each.size
            if spare > SPARE_MAX or size > SPARE_BYTES_MAX:
                self._whole.pop(each.digest, None)
                shutil.rmtree(self._at(each.digest))
                removed.append(each.digest)
        return removed

    def _at(self, name: str) -> Path:
        return self._directory / name

    def _paths(self) -> Iterator[Path]:
        if self._directory.is_dir():
            yield from (each for each in self._directory.iterdir() if _is_digest(each.name))

    def _manifest(self, digest: str) -> Manifest | None:
        try:
            found = msgspec.json.decode((self._at(digest) / MANIFEST).read_bytes(), type=Manifest)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.form == _FORM and found.digest == digest else None

    def _is_whole(self, digest: str) -> bool:
        found = self._manifest(digest)
        if found is None or len(found.modules) > CLASS_MODULES_MAX or found.size > BYTES_MAX:
            return False
        return _has(self._at(digest) / MODULES, found)


def _has(directory: Path, manifest: Manifest) -> bool:
    """Whether the modules of *manifest* lie in *directory*, with its digest."""
    try:
        return digest_of_all(tuple(_read(directory, manifest))) == manifest.digest
    except (OSError, BadClass):
        return False


def _read(directory: Path, manifest: Manifest) -> Iterator[ModuleText]:
    for each in manifest.modules:
        text = ModuleText(each.module, each.is_package, b"")
        with (directory / text.path).open("rb") as file:
            yield ModuleText(each.module, each.is_package, file.read(SOURCE_BYTES_MAX + 1))


def _is_digest(name: str) -> bool:
    """Whether *name* is a digest. It comes from records of others, and nothing else may become a path."""
    return len(name) == 32 and name.isascii() and all(each in "0123456789abcdef" for each in name)


def _write(path: Path, found: ClassCode) -> None:
    within = path / MODULES
    directories = {path: None, within: None}
    for each in found.modules:
        for parent in reversed((within / each.path).parents):
            if parent.is_relative_to(path):
                directories[parent] = None
    for directory in directories:
        directory.mkdir(mode=0o700, exist_ok=True)
    for each in found.modules:
        _write_file(within / each.path, each.source)
    manifest = Manifest(
        digest=found.code.digest,
        version=found.code.version,
        python=python_here(),
        modules=tuple(KeptModule(each.module, each.is_package, len(each.source)) for each in found.modules),
    )
    _write_file(path / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    for directory in directories:
        sync_directory(directory)


def _write_file(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
