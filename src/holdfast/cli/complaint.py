"""What a command says when it fails. Apart, because commands that show nothing need nothing else to begin."""

import sys


def complain(error: BaseException) -> None:
    """Why it failed, on one line, with what to do about it."""
    print("; ".join([f"holdfast: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
