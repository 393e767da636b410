"""Text that a terminal only shows.

Names of groups, reasons and the texts of exceptions come from others. An escape sequence in one could move
the cursor over what was said before, retitle the window, or turn the words of a refusal around.
"""

import re
from typing import Final

_SEQUENCES_IN_JSON: Final = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""What JSON need not escape, and a terminal may act upon."""


def plain(text: str, *, keep: str = "\n\t") -> str:
    """*text* with everything but letters, signs, spaces and *keep* written as Python would escape it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else _escaped(each) for each in text)


def plain_json(encoded: str) -> str:
    """The same JSON, in which a terminal finds nothing to act upon."""
    return _SEQUENCES_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
