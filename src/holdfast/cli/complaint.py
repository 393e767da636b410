"""What a command says when it fails. Apart, because commands that show nothing need nothing else to begin."""

import sys

from holdfast.machine.terminal_text import plain


def complain(error: BaseException) -> None:
    """Why it failed, on one line, with what to do about it."""
    text = "; ".join([f"holdfast: {error}", *getattr(error, "__notes__", ())])
    print(plain(text), file=sys.stderr)
