"""The changelog as text: what is written is read back as it was."""

import random

import pytest
from directory_steps import History

from holdfast.clock.vector import Vector
from holdfast.directory.interchange.changelog_text import (
    ChangelogHead,
    head2str,
    read_changelog,
    update2str,
)
from holdfast.directory.ldif import InvalidLdif, read_ldif
from holdfast.directory.replica.update import Update
from holdfast.model.csn import Csn

HEAD = ChangelogHead(suffix="dc=example,dc=com", after=Vector.of("g"), up_to=Vector.of("g"))


def test_every_kind_of_change_is_read_back(rounds) -> None:
    kinds: set[str] = set()
    for seed in range(rounds(short=10, long=500)):
        rng = random.Random(seed)
        history = History()
        history.run(
            [
                (rng.randrange(3), rng.randrange(history.verbs), rng.randrange(8), rng.randrange(8))
                for _ in range(60)
            ]
        )
        updates = [Update(each.changes) for each in history.issued]
        text = head2str(HEAD) + b"".join(map(update2str, updates))
        assert list(read_changelog(read_ldif([text]))) == [HEAD, *updates]
        kinds |= {type(change).__name__ for update in updates for change in update.changes}
    assert len(kinds) == 7


def test_records_that_were_cut_out_are_missed() -> None:
    """Wherever updates are cut out of a text, the next one of that replica is refused and not given out."""
    history = History()
    history.run([(number % 2, 0, number % 8, number % 8) for number in range(12)])
    updates = sorted((Update(each.changes) for each in history.issued), key=lambda each: each.csn)
    last: dict[int, Csn] = {}
    texts = []
    for each in updates:
        texts.append(update2str(each, last.get(each.csn.replica)))
        last[each.csn.replica] = each.csn
    assert list(read_changelog(read_ldif([head2str(HEAD), *texts]))) == [HEAD, *updates]
    for cut in range(len(updates)):
        later = [each for each in updates[cut + 1 :] if each.csn.replica == updates[cut].csn.replica]
        left = [head2str(HEAD), *texts[:cut], *texts[cut + 1 :]]
        given = []
        if not later:
            assert len(list(read_changelog(read_ldif(left)))) == len(updates)
            continue
        with pytest.raises(InvalidLdif, match=f"follows on {updates[cut].csn}, which is missing"):
            given.extend(read_changelog(read_ldif(left)))
        assert later[0] not in given


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (b"", 1, "begins with the record cn=changelog"),
        (b"dn: cn=else\ncn: else\n", 1, "begins with the record cn=changelog"),
        (head2str(HEAD) + b"dn: csn=5,cn=changelog\nchangeKind: move\n", 8, "not a CSN"),
        (head2str(HEAD) + b"dn: csn=03626325e0001a1a1,cn=changelog\nchangeKind: move\n", 8, "one entryuuid"),
        (head2str(HEAD) + b"dn: cn=a\nchangetype: delete\n", 8, "no changetype"),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(text: bytes, line: int, said: str) -> None:
    with pytest.raises(InvalidLdif, match=said) as caught:
        list(read_changelog(read_ldif([text])))
    assert caught.value.line == line
