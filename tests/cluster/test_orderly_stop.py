"""A host that stops in an orderly way leaves a checkpoint of every group whose object it has (E7)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from domain import Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.model.ids import GroupId
from holdfast.storage.checkpoint import checkpoint_of

pytestmark = pytest.mark.cluster


@pytest.fixture
def domain(tmp_path: Path) -> Iterator[Domain]:
    with Domain(tmp_path / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def test_an_orderly_stop_takes_a_checkpoint_of_every_group(domain: Domain) -> None:
    """The checkpoint includes the last acknowledged call: nothing is left to be replayed."""

    async def work(client: Client) -> dict[GroupId, tuple[str, int]]:
        found = {}
        for style in ("cold_passive", "active"):
            group = await client.create(style, style=style)
            for _ in range(10):
                await group.deposit("a", 1)
            info = await client.info(style)
            found[info.group] = (info.primary, 10)
        return found

    expected = run(domain, work)
    domain.run("down")
    for group, (primary, calls) in expected.items():
        store = domain.directory / "hosts" / primary / "store"
        kept = [
            found[1] for each in store.iterdir() if (found := checkpoint_of(each.name)) and found[0] == group
        ]
        assert max(kept, default=0) >= calls
