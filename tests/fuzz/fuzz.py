"""Fuzz one target, guided by coverage: ``python tests/fuzz/fuzz.py TARGET [options of libFuzzer]``.

``fuzz.py TARGET --known`` says whether there is such a target (:mod:`table` has them all), and needs nothing.

Needs atheris (``requirements/fuzz.txt``). An input that breaks something is shown, and kept as ``crash-...``
where this was started; to see it again, name the file after the target.
"""

import importlib
import sys
import tempfile
from pathlib import Path

from table import TABLE, known_or_why

LETTERS_MAX = 4_096
"""Of an input. Longer ones find nothing new, and slow the search down; the tests have the longest."""


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if why := known_or_why(name):
        print(why, file=sys.stderr)
        sys.exit(2)
    if sys.argv[2:] == ["--known"]:
        return
    import atheris  # type: ignore[import-not-found,unused-ignore]  # not among what every developer has

    import holdfast  # noqa: F401  # first, so that what is not fuzzed is not instrumented

    fuzzed = TABLE[name].packages
    # What the rest has imported of it is not instrumented, and the search would be blind.
    for each in [each for each in sys.modules if each.startswith(fuzzed)]:
        del sys.modules[each]
    with atheris.instrument_imports(include=list(fuzzed)):
        target, seeds = importlib.import_module(TABLE[name].module).TARGETS[name]
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as corpus:
        for index, seed in enumerate(seeds):
            Path(corpus, f"seed-{index}").write_bytes(seed)
        inputs = [] if any(Path(each).is_file() for each in sys.argv[2:]) else [corpus]
        atheris.Setup([sys.argv[0], f"-max_len={LETTERS_MAX}", *sys.argv[2:], *inputs], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
