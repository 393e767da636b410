"""One connection as a state machine without IO: bytes in, frames and bytes out.

    connector:  AWAITING_WELCOME -> AWAITING_PROOF -> AWAITING_READY -> OPEN -> ENDED
    acceptor:   AWAITING_HELLO   -> AWAITING_PROOF                   -> OPEN -> ENDED

With TLS both open without a proof, right after the Hello and the Welcome.

``receive`` returns the application's frames. Everything else is state: ``state``, ``agreed`` once open,
``reason`` once ended, and ``take_output`` for the bytes to send. The first violation ends the session with
one reason, which is also sent to the peer as a Goodbye; frames before it are still returned.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, cast

from holdfast.model.errors import invariant
from holdfast.net.credentials import ADVICE, ClientKey, Credentials, DomainSecret, ProvenBy, is_proof, proof
from holdfast.net.frame import Frame, FrameDecoder, Kind, Reason, Why, encode_frame
from holdfast.net.handshake import (
    HANDSHAKE_BYTES_MAX,
    Agreed,
    CertifiedName,
    Expected,
    PeerIdentity,
    encode_goodbye,
    encode_hello,
    encode_welcome,
    judge_hello,
    judge_welcome,
    read_goodbye,
)


class State(Enum):
    AWAITING_HELLO = auto()
    AWAITING_WELCOME = auto()
    AWAITING_PROOF = auto()
    AWAITING_READY = auto()
    OPEN = auto()
    ENDED = auto()


CONTROL: Final[dict[tuple[State, Kind], State]] = {
    (State.AWAITING_HELLO, Kind.HELLO): State.AWAITING_PROOF,
    (State.AWAITING_HELLO, Kind.GOODBYE): State.ENDED,
    (State.AWAITING_WELCOME, Kind.WELCOME): State.AWAITING_PROOF,
    (State.AWAITING_WELCOME, Kind.GOODBYE): State.ENDED,
    (State.AWAITING_PROOF, Kind.PROOF): State.OPEN,
    (State.AWAITING_PROOF, Kind.GOODBYE): State.ENDED,
    (State.AWAITING_READY, Kind.READY): State.OPEN,
    (State.AWAITING_READY, Kind.GOODBYE): State.ENDED,
    (State.OPEN, Kind.ALIVE): State.OPEN,
    (State.OPEN, Kind.GOODBYE): State.ENDED,
}
"""The next state for each frame of the connection itself; any other combination is out of order. The
application's frames are in order while the session is open. A connector that has received the proof awaits
the Ready first."""

ALIVE_FRAME: Final = encode_frame(Kind.ALIVE, b"")


class Session:
    """The protocol state of one connection, at either end."""

    def __init__(
        self,
        ours: PeerIdentity,
        *,
        is_connector: bool,
        payload_bytes_max: int,
        idle_ms: int,
        expected: Expected,
        certified: CertifiedName | None = None,
        credentials: Credentials | None = None,
        nonce: bytes = b"",
        address: str = "",
        admit: Callable[[Agreed], Reason | None] = lambda agreed: None,
    ) -> None:
        """*credentials* and a fresh *nonce* are needed unless the peer is *certified*. *address* is what a
        connector dialed, or empty if a relay may be in between; for an acceptor, where it was reached.
        *admit* is asked by an acceptor when the peer has proved who it is.
        """
        invariant(certified is not None or credentials is not None, "a peer is certified or proves itself")
        invariant(
            is_connector or certified is not None or isinstance(credentials, DomainSecret),
            "only who knows the domain's secret can tell who else does",
        )
        self.state = State.AWAITING_WELCOME if is_connector else State.AWAITING_HELLO
        self.agreed: Agreed | None = None
        self.reason: Reason | None = None
        self._ours = ours
        self._payload_bytes_max = payload_bytes_max
        self._idle_ms = idle_ms
        self._expected = expected
        self._certified = certified
        self._credentials = credentials
        self._nonce = nonce
        self._address = address
        self._admit = admit
        self._is_connector = is_connector
        self._pending: Agreed | None = None
        """The peer as it says it is, before it has proved that."""
        self._hello = self._welcome = b""
        self.decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
        """An open connection passes its bytes to its ``hand_run`` directly; ``take_rest`` follows."""
        self._output: list[bytes] = []
        if is_connector:
            self._hello = encode_hello(ours, payload_bytes_max, idle_ms, self._proven_by, nonce)
            self._output.append(encode_frame(Kind.HELLO, self._hello))

    def receive(self, data: bytes) -> list[Frame]:
        """Process the bytes that arrived, in any pieces, and return the application's frames in order."""
        if self.state is State.ENDED:
            return []
        self.decoder.feed(data)
        frames = self.decoder.take_run() if self.state is State.OPEN else []
        return frames + self._receive_unusual()

    def take_rest(self) -> list[Frame]:
        """Return the frames after those that ``decoder.hand_run`` has passed on: what it leaves is incomplete
        or begins with a frame of the connection itself."""
        return self._receive_unusual() if self.state is State.OPEN else []

    def watch_long_frames(self, on_long: Callable[[int], None]) -> None:
        """Have *on_long* called with the length of each long frame that begins, and with 0 at its end."""
        self.decoder.watch_long(on_long)

    @property
    def current_kind(self) -> Kind:
        """The kind of the frame at which ``decoder.hand_run`` raised."""
        return self.decoder.next_kind

    def _receive_unusual(self) -> list[Frame]:
        """Continue after a run: the rest is incomplete or begins with a frame of the connection itself."""
        decoder, frames = self.decoder, list[Frame]()
        while (frame := decoder.take_one()) is not None:
            self._on_unusual(*frame)
            if self.reason is not None:
                return frames
            if self.state is State.OPEN:
                frames += decoder.take_run()
        if decoder.fault is not None:
            self._fail(decoder.fault)
        return frames

    def receive_eof(self) -> None:
        """Record that the peer will send nothing more."""
        if self.decoder.is_between_frames:
            self._end(Reason(Why.LOST, "the connection was closed without a goodbye"))
        else:
            self._fail(Reason(Why.TRUNCATED, "the connection ended inside a frame"))

    def end(self, reason: Reason) -> None:
        """End the session from this side and tell the peer. A second call does nothing."""
        self._fail(reason)

    def frame(self, kind: Kind, payload: bytes) -> bytes:
        """The bytes of one application frame. Senders must respect ``agreed.payload_bytes_max``."""
        invariant(self.state is State.OPEN, "frames are sent only in an open session")
        return encode_frame(kind, payload)

    def take_output(self) -> bytes:
        """Return and clear the bytes that the session itself must send now."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    def _on_unusual(self, kind: Kind, payload: bytes) -> None:
        """Handle a frame of the connection itself, or any frame before the session is open."""
        following = CONTROL.get((self.state, kind))
        if following is None:
            self._fail(Reason(Why.OUT_OF_ORDER, f"{kind.name} while {self.state.name}"))
        elif following is State.ENDED:
            self._end(read_goodbye(payload))
        elif kind is Kind.HELLO:
            self._on_hello(payload)
        elif kind is Kind.WELCOME:
            self._on_welcome(payload)
        elif kind is Kind.PROOF:
            self._on_proof(payload)
        elif kind is Kind.READY:
            self._open()

    # --- the handshake

    def _on_hello(self, payload: bytes) -> None:
        verdict = judge_hello(payload, self._ours, self._expected, self._certified)
        if isinstance(verdict, Reason):
            self._fail(verdict)
            return
        self._hello, self._pending = payload, verdict
        self._welcome = encode_welcome(
            self._ours, verdict.version, self._payload_bytes_max, self._idle_ms, self._nonce, self._address
        )
        if self._certified is not None and self._is_refused(verdict):
            return
        self._output.append(encode_frame(Kind.WELCOME, self._welcome))
        if self._certified is not None:
            self._open()
        else:
            self._output.append(self._own_proof())
            self.state = State.AWAITING_PROOF

    def _on_welcome(self, payload: bytes) -> None:
        verdict = judge_welcome(payload, self._ours, self._expected, self._certified, self._address)
        if isinstance(verdict, Reason):
            self._fail(verdict)
            return
        self._welcome, self._pending = payload, verdict
        if self._certified is not None:
            self._open()
        else:
            self.state = State.AWAITING_PROOF

    def _on_proof(self, payload: bytes) -> None:
        peer = cast(Agreed, self._pending)
        key = self._key()
        if not is_proof(payload, key, self._hello, self._welcome, is_connector=not self._is_connector):
            said = f"{peer.peer} has not proved that it knows the secret of domain {self._ours.domain!r}"
            if self._is_connector:
                said = f"{peer.peer} knows another secret of domain {self._ours.domain!r} than {self._ours}"
            self._fail(Reason(Why.SECRET, f"{said}: {ADVICE}"))
        elif self._is_connector:
            self._output.append(self._own_proof())
            self.state = State.AWAITING_READY
        elif not self._is_refused(peer):
            self._output.append(encode_frame(Kind.READY, b""))
            self._open()

    def _is_refused(self, peer: Agreed) -> bool:
        refusal = self._admit(peer)
        if refusal is not None:
            self._fail(refusal)
        return refusal is not None

    def _open(self) -> None:
        self.decoder.payload_bytes_max = self._payload_bytes_max
        self.agreed = self._pending
        self.state = State.OPEN

    @property
    def _proven_by(self) -> ProvenBy:
        if self._certified is not None:
            return ProvenBy.CERTIFICATE
        return ProvenBy.SECRET if isinstance(self._credentials, DomainSecret) else ProvenBy.KEY

    def _own_proof(self) -> bytes:
        shown = proof(self._key(), self._hello, self._welcome, is_connector=self._is_connector)
        return encode_frame(Kind.PROOF, shown)

    def _key(self) -> bytes:
        """The key with which both ends prove themselves: the connecting end's."""
        if not isinstance(self._credentials, DomainSecret):
            return cast(ClientKey, self._credentials).key
        if self._is_connector:
            return self._credentials.key_for(self._ours.id, ProvenBy.SECRET)
        peer = cast(Agreed, self._pending)
        return self._credentials.key_for(peer.peer.id, peer.proven_by)

    def _fail(self, reason: Reason) -> None:
        """End with a Goodbye."""
        if self.state is not State.ENDED:
            self._output.append(encode_frame(Kind.GOODBYE, encode_goodbye(reason)))
            self._end(reason)

    def _end(self, reason: Reason) -> None:
        if self.state is not State.ENDED:
            self.state = State.ENDED
            self.reason = reason
            self.decoder.is_stopped = True
