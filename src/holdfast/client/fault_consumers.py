"""Pushing to consumers: objects of this process to which the notifier's events are brought, in order.

At least once, with numbers: what a consumer has taken is acknowledged to the notifier after a while, and
whoever resumes it may hear the last few again. A consumer that is slow holds up nobody: its events wait in
the notifier's ring, and if they are gone before it comes, it is told of the gap and the loss is counted.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, Protocol, runtime_checkable

import structlog

from holdfast.client.notifier import NotifierGroup
from holdfast.faults.notifier import Notifier
from holdfast.faults.told import Gap, Page, Told
from holdfast.model.errors import HoldfastError, InvalidRequest

READ_S: Final = 0.25
"""Between two questions, when there was nothing new."""
BATCH: Final = 100
"""Events brought at once."""

log = structlog.get_logger("holdfast.faults")


@runtime_checkable
class StructuredPushConsumer(Protocol):
    """Takes events one by one (CosNotifyComm::StructuredPushConsumer). May also have ``on_gap``."""

    def push_structured_event(self, told: Told) -> Awaitable[None] | None: ...


@runtime_checkable
class SequencePushConsumer(Protocol):
    """Takes batches (CosNotifyComm::SequencePushConsumer). May also have ``on_gap``."""

    def push_structured_events(self, told: list[Told]) -> Awaitable[None] | None: ...


@runtime_checkable
class HearsOfGaps(Protocol):
    """A consumer that wants to know what it missed."""

    def on_gap(self, gap: Gap) -> Awaitable[None] | None: ...


class Push:
    """Brings one consumer's events, from when it is made until it is stopped or the consumer fails."""

    def __init__(
        self,
        id: int,
        consumer: StructuredPushConsumer | SequencePushConsumer,
        notifier: NotifierGroup,
        after: int | None,
    ) -> None:
        self._id = id
        self._consumer = consumer
        self._notifier = notifier
        self._after = after
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                page = await self._notifier.ask(Notifier.read_for, self._id, self._after, BATCH)
                await self._bring(page)
                if page.reached == page.newest:
                    await asyncio.sleep(READ_S)
        except InvalidRequest as error:
            log.warning("a consumer hears of faults no more", consumer=self._id, why=str(error))
        except Exception as error:
            # The consumer is the user's code, and may fail in any way; what it did not take stays unheard.
            log.error("a consumer of faults failed", consumer=self._id, why=repr(error))

    async def _bring(self, page: Page) -> None:
        missed = 0 if page.gap is None else page.gap.count
        if page.gap is not None and isinstance(self._consumer, HearsOfGaps):
            await _taken(self._consumer.on_gap(page.gap))
        if isinstance(self._consumer, StructuredPushConsumer):
            for told in page.events:
                await _taken(self._consumer.push_structured_event(told))
        elif page.events:
            await _taken(self._consumer.push_structured_events(list(page.events)))
        if page.events or missed:
            await self._acknowledge(page.reached, missed)
        self._after = page.reached

    async def _acknowledge(self, reached: int, missed: int) -> None:
        try:
            await self._notifier.ask(Notifier.acknowledge, self._id, reached, missed)
        except InvalidRequest:
            raise
        except HoldfastError:
            pass  # the next one will do: only whoever resumes would hear these again


async def _taken(done: Awaitable[None] | None) -> None:
    if done is not None:
        await done
