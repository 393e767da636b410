"""Fuzz one target, guided by coverage: ``python tests/fuzz/fuzz.py TARGET [options of libFuzzer]``.

Needs atheris (``requirements/fuzz.txt``). An input that breaks something is shown, and kept as ``crash-...``
where this was started; to see it again, name the file after the target.
"""

import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found,unused-ignore]  # not among what every developer has

import holdfast  # noqa: F401  # first, so that what is not fuzzed is not instrumented

FUZZED = ("holdfast.faults", "holdfast.directory", "holdfast.ldap", "holdfast.shipping")

# What the rest has imported of it is not instrumented, and the search would be blind.
for name in [each for each in sys.modules if each.startswith(FUZZED)]:
    del sys.modules[name]
with atheris.instrument_imports(include=list(FUZZED)):
    from targets import TARGETS

LETTERS_MAX = 4_096
"""Of an input. Longer ones find nothing new, and slow the search down; the tests have the longest."""


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"fuzz.py {'|'.join(TARGETS)} [options of libFuzzer, or an input that broke something]")
    target, seeds = TARGETS[sys.argv[1]]
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as corpus:
        for index, seed in enumerate(seeds):
            Path(corpus, f"seed-{index}").write_bytes(seed)
        inputs = [] if any(Path(each).is_file() for each in sys.argv[2:]) else [corpus]
        atheris.Setup([sys.argv[0], f"-max_len={LETTERS_MAX}", *sys.argv[2:], *inputs], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
