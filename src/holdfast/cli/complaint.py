"""The message of a command that fails. A separate module, so that commands without output import little."""

import sys

from holdfast.machine.terminal_text import plain


def complain(error: BaseException) -> None:
    """Print on one line why the command failed, with what to do about it."""
    text = "; ".join([f"holdfast: {error}", *getattr(error, "__notes__", ())])
    print(plain(text), file=sys.stderr)
