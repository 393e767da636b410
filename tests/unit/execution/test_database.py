"""The database of a stored object: what classes may do with it, and what a flush leaves on the disk."""

from pathlib import Path

import apsw
import pytest

from holdfast.execution.database import ObjectDatabase, Place, StorageFailed, StorageLost, connect, settle
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Position

SCHEMA = "CREATE TABLE words (place INTEGER PRIMARY KEY, word TEXT NOT NULL)"
ADD = "INSERT INTO words (word) VALUES (?)"


def made(path: Path, schema: str = SCHEMA) -> ObjectDatabase:
    return ObjectDatabase(Place(str(path)), schema, is_new=True)


def opened(path: Path) -> ObjectDatabase:
    database = ObjectDatabase(Place(str(path)), SCHEMA, is_new=False)
    database.open()
    return database


def words(database: ObjectDatabase) -> list[str]:
    return [word for (word,) in database.execute("SELECT word FROM words ORDER BY place", (), is_query=True)]


def add(database: ObjectDatabase, *words: str) -> None:
    for word in words:
        database.execute(ADD, (word,), is_query=False)


def test_a_process_that_ends_leaves_the_last_flush_and_its_position(tmp_path: Path) -> None:
    """What was executed after the flush is rolled back, position and rows together."""
    database = made(tmp_path / "d.db")
    add(database, "one")
    database.flush(Position(7), b"head")
    add(database, "two")
    database.close()
    found = opened(tmp_path / "d.db")
    assert (found.position, found.head, words(found)) == (7, b"head", ["one"])


def test_the_main_file_does_not_change_between_two_settlings(tmp_path: Path) -> None:
    """Others fetch it meanwhile: neither operations nor flushes nor a close may touch it."""
    path = tmp_path / "d.db"
    database = made(path)
    add(database, "one")
    database.flush(Position(1), b"")
    beside = connect(Place(str(path)))
    settle(beside)
    beside.close(True)
    before = path.read_bytes()
    add(database, *map(str, range(2000)))
    database.flush(Position(2), b"")
    add(database, "more")
    database.close()
    assert path.read_bytes() == before
    assert len(words(opened(path))) == 2001


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        "BEGIN",
        "ATTACH 'elsewhere.db' AS other",
        "PRAGMA synchronous=OFF",
        "UPDATE holdfast_head SET position = 3",
        "DROP TABLE holdfast_head",
        "SELECT random()",
        "SELECT current_timestamp",
        "SELECT total_changes()",
        "CREATE TEMP TABLE passing (id)",
        "CREATE TABLE temp.passing (id)",
        "CREATE TEMP VIEW passing AS SELECT 1",
        "CREATE TEMP TRIGGER passing AFTER INSERT ON words BEGIN SELECT 1; END",
        "RELEASE holdfast_step",
        "ROLLBACK TO holdfast_step",
        "SAVEPOINT Holdfast_Step",
    ],
)
def test_a_class_cannot_do_what_is_not_its_own(tmp_path: Path, statement: str) -> None:
    database = made(tmp_path / "d.db")
    add(database, "one")
    database.flush(Position(1), b"")
    with pytest.raises(apsw.Error, match=r"not authorized|prohibited"):
        database.execute(statement, (), is_query=False)
    add(database, "two")
    database.flush(Position(2), b"")
    assert words(database) == ["one", "two"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR ROLLBACK INTO words VALUES (1, 'again')",
        "INSERT or /* now */ Rollback INTO words VALUES (1, 'again')",
        "CREATE TABLE more (id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)",
        "CREATE TRIGGER more AFTER INSERT ON words BEGIN SELECT RAISE ( ROLLBACK, 'no'); END",
    ],
)
def test_a_conflict_undoes_no_earlier_operation(tmp_path: Path, statement: str) -> None:
    """SQLite would roll back what came since the last flush, which is something else on every member."""
    database = made(tmp_path / "d.db")
    add(database, "one")
    with pytest.raises(InvalidRequest, match="would undo earlier operations"):
        database.execute(statement, (), is_query=False)
    assert words(database) == ["one"]
    with pytest.raises(InvalidRequest, match="would undo earlier operations"):
        made(tmp_path / "e.db", statement).open()
    add(database, "or rollback")


def test_a_query_only_reads(tmp_path: Path) -> None:
    database = made(tmp_path / "d.db")
    add(database, "one")
    with pytest.raises(InvalidRequest, match="a query changes nothing"):
        database.execute(ADD, ("two",), is_query=True)
    assert words(database) == ["one"]


def test_a_query_begins_no_savepoint_even_if_an_operation_has_said_the_same(tmp_path: Path) -> None:
    database = made(tmp_path / "d.db")
    database.execute("SAVEPOINT mine", (), is_query=False, step=1)
    database.execute("RELEASE mine", (), is_query=False, step=1)
    for statement in ("SAVEPOINT mine", "RELEASE mine", "ROLLBACK TO mine"):
        with pytest.raises(apsw.AuthError):
            database.execute(statement, (), is_query=True)


@pytest.mark.parametrize("flushes", [False, True])
def test_savepoints_end_with_the_step_that_made_them(tmp_path: Path, flushes: bool) -> None:
    """Whether the object was flushed meanwhile or not, which each member decides for itself."""
    database = made(tmp_path / "d.db")

    def operate(step: int, *statements: str) -> None:
        for each in statements:
            database.execute(each, (), is_query=False, step=step)

    one, two = "INSERT INTO words VALUES (1, 'one')", "INSERT INTO words VALUES (2, 'two')"
    operate(1, "SAVEPOINT mine", one, "SAVEPOINT inner", two, "ROLLBACK TO inner")
    assert words(database) == ["one"]
    if flushes:
        database.flush(Position(1), b"")
    for statement in ("ROLLBACK TO mine", "RELEASE mine", "RELEASE inner"):
        with pytest.raises(apsw.SQLError, match="no such savepoint"):
            operate(2, statement)
    operate(3, "SAVEPOINT mine", two, "ROLLBACK TO mine", "RELEASE mine")
    assert words(database) == ["one"]


@pytest.mark.parametrize("flushes", [False, True])
def test_the_last_row_is_that_of_the_step(tmp_path: Path, flushes: bool) -> None:
    database = made(tmp_path / "d.db")
    database.execute("INSERT INTO words VALUES (9, 'nine')", (), is_query=False, step=1)
    if flushes:
        database.flush(Position(1), b"")
    last = "SELECT last_insert_rowid()"
    assert database.execute(last, (), is_query=False, step=2) == [(0,)]
    database.execute("INSERT INTO words VALUES (11, 'eleven')", (), is_query=False, step=2)
    assert database.execute(last, (), is_query=False, step=2) == [(11,)]


def test_the_digest_is_of_the_rows_and_not_of_how_they_came(tmp_path: Path) -> None:
    """Members flush at other moments, and one may have got its rows by another way round."""
    one, two = made(tmp_path / "1.db"), made(tmp_path / "2.db")
    add(one, "a", "b", "c")
    one.flush(Position(3), b"")
    add(two, "a")
    two.flush(Position(1), b"")
    add(two, "x", "c")
    two.execute("UPDATE words SET word = 'b' WHERE word = 'x'", (), is_query=False)
    assert one.digest() == two.digest()
    two.execute("DELETE FROM words WHERE word = 'b'", (), is_query=False)
    assert one.digest() != two.digest()
    one.close()
    assert opened(tmp_path / "1.db").digest() == one.digest()


def test_full_text_tables_can_be_used_and_are_not_compared(tmp_path: Path) -> None:
    schema = f"{SCHEMA}; CREATE VIRTUAL TABLE texts USING fts5(body)"
    one, two = made(tmp_path / "1.db", schema), made(tmp_path / "2.db", schema)
    for each in (one, two):
        for body in ("a red fox", "a brown dog"):
            each.execute("INSERT INTO texts VALUES (?)", (body,), is_query=False)
            if each is two:
                each.flush(Position(1), b"")
    found = one.execute("SELECT body FROM texts WHERE texts MATCH 'fox'", (), is_query=True)
    assert found == [("a red fox",)]
    assert one.digest() == two.digest()


def test_a_database_that_cannot_be_read_is_lost_and_one_that_fails_ends_the_host(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(StorageLost, match="cannot be read"):
        opened(tmp_path / "bad.db")
    with pytest.raises(StorageFailed):
        opened(tmp_path / "absent.db")


def test_a_schema_that_makes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="schema of the class cannot be used"):
        made(tmp_path / "d.db", "CREATE TABLE words (").open()
