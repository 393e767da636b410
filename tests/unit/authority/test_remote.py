"""The embedded authority as hosts ask it while it is away."""

import asyncio

import pytest
from net_world import secret_of

from holdfast.authority import client
from holdfast.authority.client import ClientConfig
from holdfast.authority.contract import Get, Unknown
from holdfast.authority.remote import RemoteAuthority
from holdfast.model.ids import MILLISECOND
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role


def test_who_asks_one_question_too_many_is_told_that_there_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error would end the host. The host has more groups than fit, and waits for the authority."""
    monkeypatch.setattr(client, "REQUESTS_MAX", 1)

    async def work() -> list[object]:
        endpoint = ConnectionSettings(
            PeerIdentity("holdfast", Role.HOST, "a"), credentials=secret_of("holdfast")
        )
        nobody = Address.parse("127.0.0.1:1")
        authority = RemoteAuthority(nobody, endpoint, config=ClientConfig(deadline_ns=50 * MILLISECOND))
        answers = await asyncio.gather(*(authority.ask(Get(key)) for key in "ab"))
        await authority.close()
        return list(answers)

    one, other = asyncio.run(work())
    assert isinstance(one, Unknown)
    assert isinstance(other, Unknown)
    assert "unanswered" in other.reason
