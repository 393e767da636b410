"""A log that cannot be written harms nobody who writes to it."""

import io

from holdfast.machine.trace import LossyStream


class FullDisk(io.StringIO):
    """A file that takes no more while the disk is full."""

    is_full = False

    def write(self, text: str, /) -> int:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_lines_that_find_no_space_are_counted_and_the_next_one_says_so() -> None:
    file = FullDisk()
    stream = LossyStream(file)
    stream.write("one\n")
    file.is_full = True
    for line in ("two\n", "three\n"):
        assert stream.write(line) == len(line)
    stream.flush()
    file.is_full = False
    stream.write("four\n")
    stream.write("five\n")
    assert file.getvalue() == "one\n2 lines could not be written to this log\nfour\nfive\n"
