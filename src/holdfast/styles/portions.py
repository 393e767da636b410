"""Outcomes in records of a bearable length: what is too long for one record is cut into several."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from holdfast.styles.operation import Call, Executed, Replied, Reply, Sent, Stamp, ends_of_portions

CALL_BYTES: Final = 64
"""What a record has of a call beside its method, arguments and outcome, at most: numbers, and a trace."""


def executed_parts(
    stamp: Stamp, sent: Sent, calls: list[Call], outcomes: list[bytes], bytes_max: int
) -> Iterator[tuple[Executed, list[Call]]]:
    """The calls of one frame, all of which have ended, as records that follow each other; and with each the
    calls it holds."""
    begin = 0
    lengths = [
        len(each.arguments) + len(each.method.encode()) + CALL_BYTES + len(ended)
        for each, ended in zip(calls, outcomes, strict=True)
    ]
    for end in ends_of_portions(lengths, bytes_max):
        part = calls[begin:end]
        yield Executed(stamp.part(begin), sent.of(part), outcomes[begin:end]), part
        begin = end


def alike_parts(
    stamp: Stamp, calls: list[Call], outcomes: list[bytes | None]
) -> Iterator[tuple[Stamp, list[Call], list[bytes]]]:
    """Runs of calls that have all ended, with their outcomes, and of calls that all wait, with none."""
    begin = 0
    for _, run in groupby(outcomes, lambda outcome: outcome is None):
        alike = list(run)
        end = begin + len(alike)
        yield stamp.part(begin), calls[begin:end], [outcome for outcome in alike if outcome is not None]
        begin = end


def replied_parts(replies: list[Reply], bytes_max: int) -> list[Replied]:
    """Outcomes of calls that were ordered earlier, as records that follow each other."""
    if not replies:
        return []
    begin, parts = 0, []
    lengths = [len(each.client.encode()) + CALL_BYTES + len(each.outcome) for each in replies]
    for end in ends_of_portions(lengths, bytes_max):
        parts.append(Replied(replies[begin:end]))
        begin = end
    return parts
