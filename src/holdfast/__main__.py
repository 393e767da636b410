"""``python -m holdfast``, and the command `holdfast`.

A client is installed without the packages that hosts and the command line need. Whoever types the command
there is told in one line what to install.
"""

import sys

EXTRA = "holdfast[host]"


def main() -> None:
    """Run the command line."""
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
