"""An archive: documents found by their ids, more of them than fit into memory.

The documents are in a database that each member has on its own disk. See it survive the death of its primary,
on a domain of its own::

    python examples/archive.py

Or use it yourself::

    holdfast up --detach --app examples --group archive=archive:Archive
    holdfast call archive put '"a letter"' '"Dear reader, ..."'
    holdfast chaos kill-primary archive
    holdfast call archive get '"a letter"'
"""

import asyncio
from typing import Any

import holdfast as hf


class Archive(hf.Stored):
    """Documents by id. What is in ``self.database`` is on every member's disk, and not in memory."""

    schema = "CREATE TABLE documents (id TEXT PRIMARY KEY, body BLOB NOT NULL)"

    def put(self, id: str, body: str | bytes) -> int:
        """Keep a document, in place of one of the same id; the length of what is kept."""
        self.database.execute("INSERT OR REPLACE INTO documents VALUES (?, ?)", id, body)
        return len(body)

    def remove(self, id: str) -> bool:
        """Remove a document; whether it was there."""
        return self.database.one("DELETE FROM documents WHERE id = ? RETURNING id", id) is not None

    @hf.query
    def get(self, id: str) -> Any:
        """The document of that id; None if there is none."""
        found = self.database.one("SELECT body FROM documents WHERE id = ?", id)
        return found[0] if found is not None else None

    @hf.query
    def count(self) -> int:
        (found,) = self.database.execute("SELECT count(*) FROM documents")
        return int(found[0])


WRITERS, EACH = 10, 30


async def story(stage: Any) -> None:
    """Many documents at once, the primary killed in the middle of them: each is there, as it was put."""
    archive = stage.group
    await archive.put("the first", "once upon a time")

    async def write(number: int) -> None:
        for step in range(EACH):
            await archive.put(f"{number}/{step}", f"document {step} of {number} " * 20)

    writing = [asyncio.create_task(write(number)) for number in range(WRITERS)]
    await stage.kill_primary()
    await asyncio.gather(*writing)
    print(
        f"{await archive.count()} documents later, on {await stage.primary()}:",
        await archive.get("the first"),
    )
    for number in range(WRITERS):
        assert await archive.get(f"{number}/{EACH - 1}") == f"document {EACH - 1} of {number} " * 20


if __name__ == "__main__":
    from holdfast.demo.story import play

    play(Archive, story)
