"""Makes text safe to show on a terminal.

Names of groups, reasons and the texts of exceptions come from others. An escape sequence in one of them could
move the cursor over earlier output, change the window's title, or reverse the words of a refusal.
"""

import re
from typing import Final

_SEQUENCES_IN_JSON: Final = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Characters that JSON need not escape and that a terminal may act upon."""


def plain(text: str, *, keep: str = "\n\t") -> str:
    """Escape, as Python would, every character of *text* that is not printable and not in *keep*."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else _escaped(each) for each in text)


def plain_json(encoded: str) -> str:
    """The same JSON without characters that a terminal may act upon."""
    return _SEQUENCES_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
