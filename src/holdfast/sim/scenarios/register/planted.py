"""Bugs planted in the simulator's own test; they serve to test shrinking and replaying."""

from holdfast.sim.runner.planted import Planted, replacing
from holdfast.sim.scenarios.register.scenario import Add, Added, Server, record


def _acknowledge_early(server: Server, client: str, message: Add) -> None:
    """Acknowledges before the sync."""
    if not server.is_ready:
        return
    if message.number not in server.numbers:
        server._disk.append("numbers", record(message.number))
        server.numbers.append(message.number)
    server._ports.network.send(client, Added(message.number))


def _ignore_failed_sync(server: Server, token: object, ok: bool) -> None:
    _on_synced(server, token, True)


_on_synced = Server.on_synced

PLANTED = (
    Planted(
        name="register-acknowledges-early",
        rule="S3",
        scenario="register",
        summary="a number is acknowledged before it is synced",
        plant=lambda: replacing(Server, "on_message", _acknowledge_early),
    ),
    Planted(
        name="register-ignores-failed-sync",
        rule="D1",
        scenario="register",
        summary="a failed sync counts as a sync",
        plant=lambda: replacing(Server, "on_synced", _ignore_failed_sync),
        profile="syncs",
    ),
)
