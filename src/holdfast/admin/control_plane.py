"""This host's part in the control plane: a manager bound to this machine, and the domain's desired state.

The rest of the host reads and changes the desired state through it. Calls and failovers do not depend on it:
groups neither ask it nor wait for it, and keep serving whatever happens to it.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import structlog

from holdfast.admin.proposals import ProposalForwarding, Proposals, Told, Wanted
from holdfast.authority import keys, membership
from holdfast.authority.contract import Compacted, Events
from holdfast.authority.control_records import TermRecord
from holdfast.authority.driver import AuthorityDriver, insist
from holdfast.authority.recipe import (
    Authority,
    Listing,
    NoAnswer,
    Recipe,
    Recipes,
    answering,
    decoded,
    perform,
    read_all,
)
from holdfast.authority.sessions import Session
from holdfast.authority.transactions import last_committed
from holdfast.control.coordination.config import ControlConfig
from holdfast.control.coordination.dedup import Dedup, decode_body, with_body
from holdfast.control.coordination.messages import Message
from holdfast.control.coordination.participant import Manager
from holdfast.control.coordination.ports import ControlPorts, Failed, Outcome, ParticipantRole
from holdfast.control.coordination.state_file import Context, StateFile
from holdfast.control.desired.changes import Change, apply, encode_change
from holdfast.control.desired.state import DomainState, decode_state, encode_state
from holdfast.machine import LoopTimers, MachineClock, MachineRandom
from holdfast.model.errors import DiskFailed, HoldfastError, NoSpace, Rejected
from holdfast.model.ids import GroupId, HostId, Incarnation, Nonce, Revision, Term
from holdfast.model.ports import Token, Trace
from holdfast.model.proven_dead import HeardAt
from holdfast.net import Kind
from holdfast.storage.disk import FileDisk

DIRECTORY: Final = "control"
"""The directory within the host's directory where the state context is kept."""
LEAVE_S: Final = 2.0
"""How long a host that stops waits for the authority to remove it from the list of participants."""

log = structlog.get_logger("holdfast.control")
_decode: Final = msgspec.msgpack.Decoder(Message | Wanted | Told).decode


class SendsToHosts(Protocol):
    """The links to the other hosts, as far as managers use them."""

    def send_as(self, kind: Kind, peer: HostId, message: object) -> None: ...


class ControlPlane:
    """The domain's desired state and its coordinator, as this host knows them.

    *on_failed* is called when the disk fails: the host must then end (D1).
    """

    def __init__(
        self,
        session: Session,
        directory: Path,
        authority: Authority,
        links: SendsToHosts,
        nonces: Callable[[], Nonce],
        *,
        trace: Trace,
        on_failed: Callable[[HoldfastError], None],
        heard_at: HeardAt,
        config: ControlConfig | None = None,
    ) -> None:
        self._session = session
        self._authority = authority
        self._nonces = nonces
        self._links = links
        self._on_failed = on_failed
        self._loop = asyncio.get_running_loop()
        self._questions = AuthorityDriver(authority)
        recipes = Recipes(self._questions)
        self._questions.on_authority = self._guarded(recipes.on_authority)
        self._disk = FileDisk(directory / DIRECTORY, self._on_synced, self._loop.call_soon_threadsafe)
        self._archive = StateFile(self._disk, on_failed)
        self._once = Dedup(apply)
        self._read: tuple[Context, DomainState] | None = None
        self._manager = Manager(
            session,
            self._archive,
            ports=ControlPorts(
                clock=MachineClock(),
                timers=lambda on_timer: LoopTimers(self._loop, self._guarded(on_timer)),
                network=self,
                random=MachineRandom(),
                trace=trace,
                recipes=recipes,
                nonce=nonces,
                # The session's keeper restores the session or ends this process; until then the manager asks
                # again.
                on_session_lost=lambda: None,
                heard_at=heard_at,
            ),
            application=self,
            config=config or ControlConfig(),
        )
        self._forwarding = ProposalForwarding(self.send)
        self._proposals = Proposals(session.host, self._manager, self._forwarding)

    # --- reading

    def state(self) -> DomainState:
        """The newest desired state that this host knows to be committed.

        Another host may already know a newer one, and a host that only looks on is about a second behind.
        """
        context = self._manager.context
        if self._read is None or self._read[0] is not context:
            self._read = context, decode_state(decode_body(context.body).body)
        return self._read[1]

    @property
    def cas(self) -> int:
        """The number of the update that made :meth:`state`; 0 if there was none."""
        return self._manager.context.cas

    @property
    def term(self) -> Term:
        return self._manager.term

    @property
    def role(self) -> ParticipantRole:
        return self._manager.role

    @property
    def coordinator(self) -> HostId | None:
        """The coordinator, as far as this host knows."""
        return self._manager.coordinator

    @property
    def is_coordinator(self) -> bool:
        return self._manager.role is ParticipantRole.COORDINATOR

    # --- changing

    async def wish(self, change: Change, *, id: str = "") -> Outcome:
        """Have *change* made exactly once, wherever the coordinator is. Never raises.

        With an *id* chosen by the caller, the same change may be requested again, here or at any host, and is
        still made once. ``Unsettled`` means that it may have been made: request it again, or :meth:`settle`
        it, under the same id.
        """
        return await self._proposals.wish(encode_change(change), id or self._nonces())

    async def settle(self, id: str) -> Outcome:
        """The outcome of the change requested under *id*.

        ``Accepted`` comes with its reply; ``Failed`` means that it was not made and never will be;
        ``Unsettled`` that this could not be found out now.
        """
        return await self._proposals.settle(id)

    def rejoin(self, why: str) -> None:
        """Make this host give up its role in the control plane and join again.

        If it is the coordinator, its unfinished updates are cancelled, or settled by the record.
        """
        self._guarded(self._manager.rejoin)(why)

    async def recover(self, groups: Collection[GroupId]) -> Outcome:
        """Continue the domain from this host's desired state, because nobody holds the committed one (T4).

        Only settings of *groups*, which the authority knows, are kept.
        """
        state = self.state()
        known = {group: own for group, own in state.groups.items() if GroupId(int(group)) in groups}
        inner = encode_state(msgspec.structs.replace(state, groups=known))
        told: asyncio.Future[Outcome] = self._loop.create_future()

        def tell(outcome: Outcome) -> None:
            if not told.done():
                told.set_result(outcome)

        try:
            self._manager.recover(with_body(self._manager.context.body, inner), tell)
        except Rejected as error:
            return Failed(error)
        return await told

    async def committed_cas(self) -> int | None:
        """The last committed update's number, from the authority's record; None if it does not answer."""
        found = await perform(self._authority, last_committed())
        if isinstance(found, NoAnswer):
            return None
        return 0 if found is None else found.cas

    # --- starting and stopping

    def start(self) -> None:
        self._manager.start()

    async def follow(self) -> None:
        """Follow the terms until cancelled (IM-66)."""
        while True:
            found: Listing[TermRecord] = await insist(
                lambda: perform(self._authority, _list_terms()), Listing
            )
            for seen in found.items:
                self._manager.on_term(seen.value)
            await self._watch(Revision(found.revision + 1))

    async def close(self) -> None:
        """Leave the control plane in order, so that nobody waits for this host."""
        self._manager.close()
        host, incarnation = self._session.host, self._session.incarnation
        try:
            async with asyncio.timeout(LEAVE_S):
                await perform(self._authority, membership.leave(host, incarnation, nonce=self._nonces()))
        except TimeoutError:
            pass  # the end of its session removes it from the list
        await self._questions.close()
        self._disk.close()

    # --- events

    def on_frame(self, peer: HostId, payload: bytes) -> None:
        """Handle a message from another host's control plane.

        A message that this version does not understand is ignored: newer hosts repeat it in an older form, or
        do without this host.
        """
        try:
            message = _decode(payload)
        except msgspec.DecodeError as error:
            log.warning("a message of the control plane is not understood", peer=peer, why=str(error))
            return
        self._guarded(self._on_message)(peer, message)

    def on_death(self, host: HostId, incarnation: Incarnation) -> None:
        self._guarded(self._manager.on_death)(host, incarnation)

    def _on_message(self, peer: HostId, message: Message | Wanted | Told) -> None:
        match message:
            case Wanted():
                self._forwarding.on_wanted(peer, message, self._manager)
            case Told():
                self._forwarding.on_told(message)
            case _:
                self._manager.on_message(peer, message)

    async def _watch(self, revision: Revision) -> None:
        async for event in self._authority.watch(keys.TERM, revision):
            match event:
                case Compacted():
                    return
                case Events(changes=changes):
                    for changed in changes:
                        if changed.item is not None:
                            self._manager.on_term(decoded(changed.item, TermRecord).value)

    def _on_synced(self, token: Token, ok: bool) -> None:
        self._guarded(self._archive.on_synced)(token, ok)

    def _guarded(self, work: Callable[..., Any]) -> Callable[..., None]:
        """Wrap *work* so that a failing disk ends the host (D1)."""

        def guarded(*arguments: Hashable) -> None:
            try:
                work(*arguments)
            except (DiskFailed, NoSpace) as error:
                self._on_failed(error)

        return guarded

    # --- as the manager's network and application

    def send(self, peer: str, message: object) -> None:
        self._links.send_as(Kind.CONTROL, HostId(peer), message)

    def apply(self, body: bytes, change: bytes) -> tuple[bytes, bytes]:
        return self._once.apply(body, change)

    def on_context(self, context: Context) -> None:
        self._proposals.on_context(context.cas)

    def on_role(self, role: ParticipantRole, term: Term) -> None:
        if role is ParticipantRole.BOOTSTRAP:
            self._forwarding.give_up()
        else:
            log.info("this host's part in the control plane", role=role.value, term=term)


@answering
def _list_terms() -> Recipe[Listing[TermRecord]]:
    return (yield from read_all(keys.TERM, TermRecord))
