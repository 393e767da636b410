"""Orders over HTTP under a key that was used before: the same thing, or a mistake that is reported."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.model.admin.domain import CreateIndex, IndexList, IndexShown
from holdfast.model.admin.groups import CreateGroup, GroupInfo, GroupList
from holdfast.web.about_groups import NewGroup, create_group
from holdfast.web.about_indexes import NewIndex, create_index
from holdfast.web.access import HttpCaller
from holdfast.web.context import WebContext
from holdfast.web.endpoint import Asked
from holdfast.web.problems import Refusal


class Makes:
    """Creates one thing for each nonce, as hosts do: later orders under it return the same thing."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    async def give(self, order: Any, by: object, kind: object) -> Any:
        if isinstance(order, CreateGroup):
            return GroupList(groups=(self._made.setdefault(order.nonce, _group(order)),))
        assert isinstance(order, CreateIndex)
        return IndexList(indexes=(self._made.setdefault(order.nonce, _index(order)),))


def _group(order: CreateGroup) -> GroupInfo:
    fields: dict[str, Any] = dict.fromkeys(GroupInfo.__struct_fields__)
    return GroupInfo(**{**fields, "name": order.name, "class_name": order.class_name})


def _index(order: CreateIndex) -> IndexShown:
    fields: dict[str, Any] = dict.fromkeys(IndexShown.__struct_fields__)
    return IndexShown(**{**fields, "name": order.name, "bucket": order.bucket})


def asked(body: Any) -> Asked:
    return Asked(HttpCaller("ops", "admin", {}), {}, {}, {"idempotency-key": "k1"}, body)


def group(name: str) -> NewGroup:
    return NewGroup(name=name, class_name="bank:Ledger")


def index(name: str) -> NewIndex:
    return NewIndex(name=name, bucket="b", using="tree")


@pytest.mark.parametrize(("create", "new"), [(create_group, group), (create_index, index)])
def test_a_key_that_made_one_thing_makes_no_other(create: Any, new: Any) -> None:
    """A different order under the key is refused, not reported as done."""

    async def work() -> None:
        site = cast(WebContext, SimpleNamespace(inside=SimpleNamespace(orders=Makes())))
        for _ in range(2):
            assert (await create(site, asked(new("one")))).value.name == "one"
        with pytest.raises(Refusal) as refused:
            await create(site, asked(new("two")))
        assert (refused.value.status, refused.value.problem.code) == (422, "key_reused")

    asyncio.run(work())
