"""``python -m holdfast``, and the command `holdfast`.

A client is installed without the packages that hosts and the command line need. Whoever types the command
there is told in one line what to install.
"""

import gc
import sys

EXTRA = "holdfast[host]"
THRESHOLDS = (50_000, 20, 100)
"""Of the garbage collector, at first: a start makes thousands of objects that stay, and looking for cycles
among them would take a tenth of its time. Processes that serve set their own."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(*THRESHOLDS)
    try:
        from holdfast.cli.main import main as run

        run()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "holdfast"):
            raise
        sys.exit(f"holdfast: this needs {EXTRA}, of which {missing} is missing: pip install '{EXTRA}'")


if __name__ == "__main__":
    main()
