"""The output of a process is bounded, and its last error message can be read."""

from pathlib import Path

from holdfast.machine.child_process import BYTES_MAX, COMPLAINT_CHARS_MAX, TAIL_BYTES, Output


def write(output: Output, *lines: str) -> None:
    with output.begin() as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def test_only_the_life_last_begun_is_quoted(tmp_path: Path) -> None:
    output = Output(tmp_path / "sub" / "p.log")
    assert output.complaint() is None
    write(output, "holdfast: first", "holdfast: second", "traceback")
    assert output.complaint() == "second"
    write(output, "nothing to say")
    assert output.complaint() is None
    assert output.tail(2) == ["traceback", "nothing to say"]


def test_long_words_and_long_files_stay_within_their_bounds(tmp_path: Path) -> None:
    file = tmp_path / "p.log"
    output = Output(file)
    write(output, "holdfast: " + "x" * 10_000)
    assert output.complaint() == "x" * COMPLAINT_CHARS_MAX
    write(output, *["y" * 1023] * (BYTES_MAX // 1024 + 1))
    assert sum(map(len, output.tail(10**6))) <= TAIL_BYTES
    write(output, "anew")
    assert file.read_text() == "anew\n"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["p.log", "p.log.old"]


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    output = Output(tmp_path / "p.log")
    with output.begin() as file:
        file.write(b"\xff\xfe\nholdfast: bad \xff\n")
    assert output.complaint() == "bad \ufffd"
