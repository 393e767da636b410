"""A stored class, and objects of it whose database is one file."""

from dataclasses import replace
from pathlib import Path

from group_classes import definition

import holdfast as hf
from holdfast.execution.database import ObjectDatabase, Place
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.model.ids import Position


class Words(hf.Stored):
    schema = "CREATE TABLE words (place INTEGER PRIMARY KEY, word TEXT NOT NULL)"

    def __init__(self) -> None:
        self.added = 0

    def add(self, word: str) -> int:
        self.added += 1
        row = self.database.one("INSERT INTO words (word) VALUES (?) RETURNING place", word)
        assert row is not None
        return int(row[0])

    async def ask(self) -> int:
        return self.add(await hf.context.group("other").get())

    async def mark_and_ask(self) -> str:
        self.mark()
        self.add("one")
        await hf.context.group("other").get()
        return self.undo()

    def mark(self) -> None:
        self.database.execute("SAVEPOINT mark")

    def undo(self) -> str:
        try:
            self.database.execute("ROLLBACK TO mark")
        except Exception as error:
            return str(error)
        return "undone"

    @hf.query
    def read(self) -> list[str]:
        return [word for (word,) in self.database.execute("SELECT word FROM words ORDER BY place")]

    @hf.query
    def cheat(self) -> None:
        self.add("in a query")


class Files:
    """The file of one object, in a directory (:class:`holdfast.execution.stored.ObjectFiles`)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fresh(self) -> ObjectDatabase:
        return ObjectDatabase(Place(str(self._path)), Words.schema, is_new=True)

    def opened(self, state: bytes, position: Position) -> ObjectDatabase:
        database = ObjectDatabase(Place(str(self._path)), Words.schema, is_new=False)
        database.open()
        return database


def stored(path: Path) -> Definition:
    return replace(definition(Words), files=Files(path))


def words_of(execution: Execution) -> list[str]:
    database = execution.database
    assert database is not None
    return [word for (word,) in database.execute("SELECT word FROM words ORDER BY place", (), is_query=True)]
