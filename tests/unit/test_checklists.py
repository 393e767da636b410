"""The checklists in docs/checklists are true: every row that is named is there, and says what shows it."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = next(each for each in Path(__file__).resolve().parents if (each / "pyproject.toml").exists())
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "checklists"))
problems: Callable[[Path], list[str]] = SCRIPT["problems"]
write: Callable[[Path], None] = SCRIPT["write"]

FTC = """# FTC

- <a id="ftc-1"></a>**FTC-1** (1.2): It works.
  - reading: always, see [FTC-2](#ftc-2).
  - `tests/test_it.py::test_it_works`
- <a id="ftc-2"></a>**FTC-2**: It flies.
  - not yet: search; wings are there
- <a id="ftc-3"></a>**FTC-3**: It burns.
  - absent: nobody wants that.
"""
TEST = """import pytest
@pytest.mark.covers("FTC-1")
def test_it_works() -> None: ...
"""
README = f"# Checklists\n\n{SCRIPT['BEGIN']}\n{SCRIPT['END']}\n\nWritten by hand.\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository whose checklists are as they should be."""
    for name, text in {
        "docs/checklists/README.md": README,
        "docs/checklists/FTC.md": FTC,
        **{f"docs/checklists/{name}.md": f"# {name}\n" for name in ("IM", "CSN", "LOSS", "FSIFT")},
        "src/it.py": '"""It works (FTC-1), and will fly (FTC-1 to 2)."""\n',
        "tests/test_it.py": TEST,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    write(tmp_path)
    return tmp_path


def replace(tree: Path, name: str, old: str, new: str) -> None:
    text = (tree / name).read_text()
    assert old in text
    (tree / name).write_text(text.replace(old, new))


def test_the_checklists_are_as_they_should_be() -> None:
    """``make checklists`` brings tests and totals up to date; the rest is to be mended by hand."""
    if wrong := problems(ROOT):
        pytest.fail("docs/checklists:\n  " + "\n  ".join(wrong[:40]), pytrace=False)


CHECKLIST, SOURCE, A_TEST = "docs/checklists/FTC.md", "src/it.py", "tests/test_it.py"


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (SOURCE, "FTC-1)", "FTC-4)", "src/it.py:1: there is no row FTC-4"),
        (SOURCE, "1 to 2", "1 to 7", "src/it.py:1: there is no row FTC-7"),
        (SOURCE, "FTC-1)", "N-1)", "src/it.py:1: there is no row N-1"),
        (A_TEST, '"FTC-1"', '"FTC-1", "IM-9"', "tests/test_it.py:2: there is no row IM-9"),
        (A_TEST, '"FTC-1"', '*["FTC-1"]', "write the row's id itself"),
        (
            A_TEST,
            "test_it_works",
            "test_it_runs",
            "FTC-1 has other tests now: -tests/test_it.py::test_it_works",
        ),
        (A_TEST, '"FTC-1"', '"FTC-1", "FTC-2"', "FTC-2 has a test, and still says 'not yet'"),
        (A_TEST, '"FTC-1"', '"FTC-1", "FTC-3"', "FTC-3 has a test, and still says 'absent'"),
        (
            CHECKLIST,
            "  - `tests/test_it.py::test_it_works`\n",
            "",
            "FTC-1 has other tests now: +tests/test_it",
        ),
        (CHECKLIST, "  - not yet: search; wings are there\n", "", "FTC-2 has neither a test nor a reason"),
        (CHECKLIST, "not yet: search;", "not yet: magic;", "FTC-2 waits for 'magic'"),
        (CHECKLIST, "not yet: search;", "later:", "neither a row, nor a test or remark of one"),
        (CHECKLIST, "absent:", "in part:", "FTC-3 says 'in part' and has no test"),
        (CHECKLIST, 'id="ftc-3"', 'id="ftc-2"', "FTC-3 has the anchor ftc-2"),
        (CHECKLIST, "FTC-3", "FTC-5", "FTC-5 is out of place"),
        (CHECKLIST, "FTC-3", "FTC-2", "FTC-2 is there twice"),
        ("docs/checklists/README.md", "| all | 3 | 1 | 1 | 1 | 0 |", "| all | 3 | 2 | 0 | 1 | 0 |", "totals"),
    ],
)
def test_what_is_wrong_is_said(tree: Path, name: str, old: str, new: str, said: str) -> None:
    assert problems(tree) == []
    replace(tree, name, old, new)
    assert any(said in problem for problem in problems(tree))


def test_tests_that_moved_are_written_anew_and_what_is_written_by_hand_stays(tree: Path) -> None:
    """A *not yet* that came true goes; marks of classes and modules count."""
    (tree / "tests/unit").mkdir()
    (tree / "tests/test_it.py").rename(tree / "tests/unit/test_that.py")
    marked = '@pytest.mark.covers("FTC-2")\nclass TestIt:\n    def test_it_flies(self) -> None: ...\n'
    (tree / "tests/test_wings.py").write_text(
        f'import pytest\npytestmark = pytest.mark.covers("FTC-1")\n{marked}def test_wings() -> None: ...\n'
    )
    write(tree)
    assert problems(tree) == []
    moved = "  - `tests/test_wings.py`\n  - `tests/unit/test_that.py::test_it_works`\n"
    assert (tree / CHECKLIST).read_text() == FTC.replace(
        "  - `tests/test_it.py::test_it_works`\n", moved
    ).replace("  - not yet: search; wings are there\n", "  - `tests/test_wings.py::TestIt`\n")
    readme = (tree / "docs/checklists/README.md").read_text()
    assert "| all | 3 | 2 | 0 | 1 | 0 |" in readme
    assert readme.endswith("Written by hand.\n")
