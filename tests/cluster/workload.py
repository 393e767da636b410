"""Callers of a ledger who remember what they were told; afterwards every member must agree with them.

Each call deposits 1 into a separate account: if it is lost the account has 0, if it is executed twice 2.
"""

import asyncio
import itertools
import secrets
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from domain import WAIT_S
from group_client import GroupClient
from member_files import ledger_of

from holdfast.client.proxy import Group
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.errors import HoldfastError, OutcomeUnknown

CALLERS = 8
LAST = "the last"
"""The account of calls that are made to see all members in sync."""
PROGRESS_S = WAIT_S
"""A call may wait for a whole domain to restart."""


class Workload:
    """*callers* who call *group*, one call after the other, from entering the context until leaving it."""

    pace_s = 0.01
    """How long each caller rests after a call; nothing in the long versions. Callers who never rest keep all
    cores busy while a test waits for something else, and lengthen every state without end."""

    def __init__(self, group: Group[Any], *, callers: int = CALLERS) -> None:
        self._group = group
        self._callers = callers
        name = secrets.token_hex(4)  # several workloads may call a group, one after the other
        self._accounts: Iterator[str] = (f"{name} {number}" for number in itertools.count())
        self._is_over = False
        self.acknowledged: list[str] = []
        self.unknown: list[str] = []
        """Accounts whose calls ended as unknown: they must have 0 or 1."""
        self.refused: list[str] = []
        """Accounts whose calls were reported as not executed: they must have 0."""
        self.worst_s = 0.0
        """How long the longest acknowledged call took."""

    async def __aenter__(self) -> "Workload":
        self._tasks = [asyncio.create_task(self._call()) for _ in range(self._callers)]
        return self

    async def __aexit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until every call in progress has ended."""
        self._is_over = True
        if error is not None:
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=error is not None)

    async def more(self, calls: int) -> None:
        """Wait until that many more calls are acknowledged, so that the group serves."""
        goal = len(self.acknowledged) + calls
        deadline = time.monotonic() + PROGRESS_S
        while len(self.acknowledged) < goal:
            ended = next((task for task in self._tasks if task.done()), None)
            if ended is not None:
                ended.result()
            missing = goal - len(self.acknowledged)
            assert time.monotonic() < deadline, (
                f"{missing} of {calls} calls not acknowledged in {PROGRESS_S} s"
            )
            await asyncio.sleep(0.005)

    async def _call(self) -> None:
        while not self._is_over:
            account, began_s = next(self._accounts), time.monotonic()
            try:
                balance = await self._group.deposit(account, 1)
            except OutcomeUnknown:
                self.unknown.append(account)
            except HoldfastError:
                self.refused.append(account)
            else:
                assert balance == 1, f"{account} was given its deposit {balance} times"
                self.acknowledged.append(account)
                self.worst_s = max(self.worst_s, time.monotonic() - began_s)
            await asyncio.sleep(self.pace_s)

    # --- the rules

    def check(self, balances: dict[str, int]) -> None:
        """Check one member's balances, or those that its clients see."""
        wrong = {account: balances.get(account, 0) for account in self.acknowledged}
        wrong = {account: found for account, found in wrong.items() if found != 1}
        assert not wrong, f"of {len(self.acknowledged)} acknowledged: {wrong}"
        doubled = {account: found for account, found in balances.items() if found > 1 and account != LAST}
        assert not doubled
        executed = [account for account in self.refused if account in balances]
        assert not executed, f"callers were told that these were not executed: {executed}"


async def check_members(client: GroupClient, calls: Mapping[str, Workload]) -> None:
    """Require that every member of the groups named in *calls* has what their callers were told; heal the
    domain first.

    Waits until all members are in sync, stops the domain and reads every member's files.
    """
    found = {name: await _settled(client, name) for name in calls}
    await client.stop_hosts()
    for name, info in found.items():
        kept = [ledger_of(client.files(host), info.group) for host in info.placed_on]
        for member in kept:
            assert member.balances[LAST] == kept[0].balances[LAST]
            calls[name].check(member.balances)
        assert all(member.balances == kept[0].balances for member in kept)


async def _settled(client: GroupClient, name: str) -> GroupInfo:
    """Return once all members are in sync and have acknowledged one more call: then each has everything."""
    group = await client.group(name)
    while True:
        before = await client.wait_in_sync(name)
        await group.deposit(LAST, 1)
        after = await client.info(name)
        if after.epoch == before.epoch:
            return after
