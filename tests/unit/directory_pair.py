"""Two masters of one suffix on their files, which hear of each other's changes by the texts of changelogs."""

import asyncio
from pathlib import Path

from holdfast.cli.directory.changelog import dump, restore
from holdfast.cli.directory.interchange import export, import_
from holdfast.directory.dn import Dn
from holdfast.directory.master import Master
from holdfast.directory.operations import Change
from holdfast.directory.reading import reading
from holdfast.directory.replica.view import EntryView
from holdfast.model.csn import Csn

SUFFIX = "dc=example,dc=com"
PEOPLE = f"ou=people,{SUFFIX}"
ADA = f"uid=ada,{PEOPLE}"

TREE = f"""version: 1

dn: {SUFFIX}
objectClass: domain
dc: example

dn: {PEOPLE}
objectClass: organizationalUnit
ou: people

dn: {ADA}
objectClass: inetOrgPerson
uid: ada
cn: Ada Lovelace
sn: Lovelace
telephoneNumber: 555-1212
description:: w7xiZXI=
jpegPhoto:: /9j/4AA=
"""


class Files:
    """One master's directory."""

    def __init__(self, directory: Path, replica: int) -> None:
        self.directory = directory
        self.replica = replica

    def do(self, *changes: Change, after: Csn | None = None) -> list[Csn]:
        """Have the master change something, and see it on the disk; *after* makes these changes the younger
        ones, as if its clock were a little ahead."""

        async def work() -> list[Csn]:
            master = await Master.open(self.directory, SUFFIX, replica=self.replica)
            try:
                while after is not None and not master.generator.observe("the test", after):
                    await asyncio.sleep(0.01)  # until that survives a crash
                return [await master.execute(each) for each in changes]
            finally:
                await master.stop()

        return asyncio.run(work())

    def state(self) -> tuple[bytes, str]:
        """All that it knows, and its vector."""

        async def work() -> tuple[bytes, str]:
            master = await Master.open(self.directory, SUFFIX, replica=self.replica)
            try:
                return master.replica.dump(), master.replica.vector.text()
            finally:
                await master.stop()

        return asyncio.run(work())

    def view(self, dn: str) -> EntryView:
        with reading(self.directory) as snapshot:
            found = snapshot.view(snapshot.find(Dn.parse(dn)))
        assert found is not None
        return found

    def dns(self) -> list[str]:
        with reading(self.directory) as snapshot:
            top = snapshot.top()
            assert top is not None
            return sorted(snapshot.dn(each)[0] for each in snapshot.subtree(top))

    def tell(self, other: "Files") -> None:
        """Let the other have all that this one's changelog has."""
        text = self.directory.with_suffix(".changes")
        dump(text, dir=self.directory, overwrite=True)
        restore(text, dir=other.directory)


def filled(directory: Path) -> Files:
    text = directory.with_suffix(".ldif")
    text.write_text(TREE)
    import_(text, dir=directory)
    return Files(directory, 1)


def pair(directory: Path) -> tuple[Files, Files]:
    """Two masters with the same data."""
    first = filled(directory / "first")
    export(directory / "state", dir=first.directory, state=True)
    import_(directory / "state", dir=directory / "second", replica_id=2)
    return first, Files(directory / "second", 2)


def exchange(first: Files, second: Files) -> None:
    first.tell(second)
    second.tell(first)
