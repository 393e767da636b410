"""Ours and the peers side by side: a row for each measure, a column for each system."""

from collections.abc import Sequence

from holdfast.bench import Result, number

LIMIT = "limit"


def side_by_side(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows. In a peer's place stands its median and, as ×, ours to theirs with the spread."""
    peers = list(dict.fromkeys(each.other_name for each in results if each.other_name != LIMIT))
    rows = []
    for name in dict.fromkeys(each.name for each in results):
        beside = {each.other_name: each for each in results if each.name == name}
        first = next(iter(beside.values()))
        rows.append(
            [
                name,
                f"{number(first.ours)} {first.unit}",
                *(_cell(beside[peer]) if peer in beside else "" for peer in peers),
                "\n".join(_wanted(each) for each in beside.values() if each.target is not None),
                "\n".join(
                    "met" if each.met else "MISSED" for each in beside.values() if each.target is not None
                ),
            ]
        )
    return ["", "Holdfast", *peers, "wanted", ""], rows


def _cell(result: Result) -> str:
    spread = f"{result.ratio_low:.2g}–{result.ratio_high:.2g}"
    return f"{number(result.other)}  ×{result.ratio:.2g} ({spread})"


def _wanted(result: Result) -> str:
    sign = "≤" if result.is_at_most else "≥"
    if result.other_name == LIMIT:
        return f"{sign} {number(result.other)} {result.unit}"
    return f"{sign} {result.target:g} × {result.other_name}"
