"""The session: handshake, order of frames, and one reason for every end, whatever bytes arrive."""

import random
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.errors import InvalidRequest
from holdfast.net import Kind, PeerIdentity, Reason, Role, Why
from holdfast.net.credentials import (
    NONCE_BYTES,
    SECRET_BYTES,
    ClientKey,
    Credentials,
    DomainSecret,
    ProvenBy,
)
from holdfast.net.frame import Frame, FrameDecoder, encode_frame
from holdfast.net.handshake import (
    HANDSHAKE_BYTES_MAX,
    Agreed,
    CertifiedName,
    Expected,
    Hello,
    encode_welcome,
    read_goodbye,
)
from holdfast.net.session import ALIVE_FRAME, Session, State

HOST = PeerIdentity("test", Role.HOST, "host1", 7)
CLIENT = PeerIdentity("test", Role.CLIENT, "client1")
PAYLOAD_BYTES_MAX = 2000
EVERYTHING = Expected()
SECRET = DomainSecret("test", b"s" * SECRET_BYTES)
T = TypeVar("T")


def acceptor(
    expected: Expected = EVERYTHING,
    certified: CertifiedName | None = None,
    *,
    address: str = "127.0.0.1:7400",
    admit: Callable[[Agreed], Reason | None] = lambda _: None,
) -> Session:
    return Session(
        HOST,
        is_connector=False,
        payload_bytes_max=PAYLOAD_BYTES_MAX,
        idle_ms=15_000,
        expected=expected,
        certified=certified,
        credentials=SECRET,
        nonce=b"a" * NONCE_BYTES,
        address=address,
        admit=admit,
    )


def connector(
    expected: Expected = EVERYTHING,
    certified: CertifiedName | None = None,
    *,
    ours: PeerIdentity = CLIENT,
    credentials: Credentials = SECRET,
    address: str = "",
) -> Session:
    return Session(
        ours,
        is_connector=True,
        payload_bytes_max=PAYLOAD_BYTES_MAX,
        idle_ms=15_000,
        expected=expected,
        certified=certified,
        credentials=credentials,
        nonce=b"c" * NONCE_BYTES,
        address=address,
    )


def shake_hands(one: Session, other: Session) -> None:
    for _ in range(2):
        other.receive(one.take_output())
        one.receive(other.take_output())


def open_acceptor() -> Session:
    session = acceptor()
    shake_hands(connector(), session)
    return session


def said(session: Session) -> list[Reason]:
    """The reasons in the Goodbyes the session sends."""
    decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
    decoder.feed(session.take_output())
    frames = iter(decoder.take_one, None)
    return [read_goodbye(payload) for kind, payload in frames if kind is Kind.GOODBYE]


def hello(**changes: object) -> bytes:
    nonce = b"c" * NONCE_BYTES
    fields = Hello("holdfast", 2, 2, "test", Role.CLIENT, "client1", 0, 1000, 15_000, ProvenBy.SECRET, nonce)
    return encode_frame(Kind.HELLO, msgspec.msgpack.encode(msgspec.structs.replace(fields, **changes)))


def test_both_ends_know_each_other_after_the_handshake() -> None:
    """Each end knows the other's identity and the longest payload it accepts."""
    one, other = connector(), acceptor()
    shake_hands(one, other)
    assert one.state is other.state is State.OPEN
    assert one.agreed is not None
    assert other.agreed is not None
    assert (one.agreed.peer, other.agreed.peer) == (HOST, CLIENT)
    assert one.agreed.payload_bytes_max == PAYLOAD_BYTES_MAX
    assert other.receive(one.frame(Kind.STATUS_REQUEST, b"?")) == [(Kind.STATUS_REQUEST, b"?")]
    assert one.receive(other.frame(Kind.STATUS_REPLY, b"!")) == [(Kind.STATUS_REPLY, b"!")]


def hand_on(session: Session, data: bytes, take: Callable[[T, Kind, bytes], None], to: T) -> list[Frame]:
    """What an open connection does with the bytes that arrive."""
    return [] if session.decoder.hand_run(take, to, data) else session.take_rest()


def test_frames_are_handed_on_until_the_session_ends() -> None:
    """Frames before a frame of the connection itself are delivered at once, those after it as a list, in
    order. None comes after the frame at which the receiver ended the session."""
    session, taken = open_acceptor(), list[bytes]()

    def take(to: list[bytes], kind: Kind, payload: bytes) -> None:
        to.append(payload)
        if payload == b"enough":
            session.end(Reason(Why.DONE, "enough"))

    ordinary = [encode_frame(Kind.HEARTBEAT, b"%d" % number) for number in range(3)]
    data = ordinary[0] + ordinary[1] + ALIVE_FRAME + ordinary[2]
    assert hand_on(session, data[:-1], take, taken) == []
    assert hand_on(session, data[-1:], take, taken) == []
    assert hand_on(session, ordinary[0] + ALIVE_FRAME + ordinary[1], take, taken) == [(Kind.HEARTBEAT, b"1")]
    assert taken == [b"0", b"1", b"2", b"0"]
    assert hand_on(session, encode_frame(Kind.HEARTBEAT, b"enough") + ordinary[0], take, taken) == []
    assert taken[4:] == [b"enough"]
    assert hand_on(session, ordinary[1], take, taken) == []


def test_a_frame_that_could_not_be_handed_on_is_named() -> None:
    session = open_acceptor()

    def take(to: None, kind: Kind, payload: bytes) -> None:
        if kind is Kind.STATUS_REQUEST:
            raise msgspec.DecodeError("not what it should be")

    data = encode_frame(Kind.HEARTBEAT, b"fine") + encode_frame(Kind.STATUS_REQUEST, b"not")
    with pytest.raises(msgspec.DecodeError):
        hand_on(session, data, take, None)
    assert session.current_kind is Kind.STATUS_REQUEST


def test_frames_right_behind_the_handshake_are_given() -> None:
    """The accepting end may send at once, in the same segment, with frames longer than a handshake."""
    one, other = connector(), acceptor()
    other.receive(one.take_output())
    one.receive(other.take_output())
    other.receive(one.take_output())
    long = b"x" * PAYLOAD_BYTES_MAX
    assert one.receive(other.take_output() + other.frame(Kind.HEARTBEAT, long)) == [(Kind.HEARTBEAT, long)]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda: hello(magic="gopher"), Why.MALFORMED),
        (lambda: hello(oldest_version=3, newest_version=9), Why.VERSION),
        (lambda: hello(oldest_version=-3, newest_version=0), Why.VERSION),
        (lambda: hello(oldest_version=1, newest_version=1), Why.VERSION),
        (lambda: hello(nonce=b""), Why.SECRET),
        (lambda: hello(proven_by=ProvenBy.CERTIFICATE), Why.SECRET),
        (lambda: hello(proven_by=ProvenBy.KEY, role=Role.ADMIN), Why.REFUSED),
        (lambda: hello(nonce=b"x" * 17), Why.MALFORMED),
        (lambda: hello() + encode_frame(Kind.PROOF, b""), Why.SECRET),
        (lambda: hello() + encode_frame(Kind.PROOF, bytes(32)), Why.SECRET),
        (lambda: hello() + encode_frame(Kind.READY, b""), Why.OUT_OF_ORDER),
        (lambda: hello() + encode_frame(Kind.HEARTBEAT, b"early"), Why.OUT_OF_ORDER),
        (lambda: hello(domain="elsewhere"), Why.REFUSED),
        (lambda: hello(role="king"), Why.MALFORMED),
        (lambda: hello(id="x" * 101), Why.MALFORMED),
        (lambda: hello(id="line\n"), Why.MALFORMED),
        (lambda: hello(incarnation=-1), Why.MALFORMED),
        (lambda: hello().replace(b"client1", b"client\xff"), Why.MALFORMED),
        (lambda: encode_frame(Kind.HELLO, b"\x91" * HANDSHAKE_BYTES_MAX), Why.MALFORMED),
        (lambda: encode_frame(Kind.HELLO, b""), Why.MALFORMED),
        (lambda: encode_frame(Kind.HELLO, b"x" * (HANDSHAKE_BYTES_MAX + 1)), Why.FRAME_TOO_LONG),
        (
            lambda: encode_frame(Kind.WELCOME, encode_welcome(HOST, 2, 1000, 15_000, b"", "")),
            Why.OUT_OF_ORDER,
        ),
        (lambda: encode_frame(Kind.HEARTBEAT, b"early"), Why.OUT_OF_ORDER),
        (lambda: encode_frame(Kind.ALIVE, b""), Why.OUT_OF_ORDER),
        (lambda: b"\x00\x00\x00\x00\xc8", Why.UNKNOWN_KIND),
        (lambda: b"GET / HTTP/1.1\r\n\r\n", Why.FRAME_TOO_LONG),
    ],
)
def test_a_bad_beginning_is_refused_with_one_reason(spoil: Callable[[], bytes], why: Why) -> None:
    """The session ends, sends one Goodbye with the reason, and returns no frame, not even of what follows."""
    session = acceptor()
    assert session.receive(spoil() + encode_frame(Kind.HEARTBEAT, b"hidden")) == []
    assert session.state is State.ENDED
    assert session.reason is not None
    assert session.reason.why is why
    assert [reason.why for reason in said(session)] == [why]
    assert session.receive(hello()) == []
    assert said(session) == []


def test_a_later_version_with_more_fields_is_understood() -> None:
    """A Hello may grow at its end, and an offer that includes our version is accepted."""
    nonce = b"c" * NONCE_BYTES
    fields = [
        "holdfast",
        1,
        5,
        "test",
        "client",
        "client1",
        0,
        1000,
        15_000,
        "secret",
        nonce,
        "more",
        {"x": 1},
    ]
    session = acceptor()
    session.receive(encode_frame(Kind.HELLO, msgspec.msgpack.encode(fields)))
    decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
    decoder.feed(session.take_output())
    kind, payload = decoder.take_one() or (Kind.GOODBYE, b"")
    assert (kind, msgspec.msgpack.decode(payload)[0]) == (Kind.WELCOME, 2)


def test_a_welcome_of_a_version_that_was_not_offered_is_refused() -> None:
    session = connector()
    session.receive(encode_frame(Kind.WELCOME, encode_welcome(HOST, 3, 1000, 15_000, b"", "")))
    assert session.reason is not None
    assert session.reason.why is Why.VERSION


@pytest.mark.parametrize(
    ("expected", "certified", "is_open"),
    [
        (Expected(roles=frozenset({Role.CLIENT})), None, True),
        (Expected(roles=frozenset({Role.HOST, Role.AGENT})), None, False),
        (Expected(id="client1"), None, True),
        (Expected(id="client2"), None, False),
        (EVERYTHING, CertifiedName("test", Role.CLIENT, "client1"), True),
        (EVERYTHING, CertifiedName("test", Role.HOST, "client1"), False),
        (EVERYTHING, CertifiedName("test", Role.CLIENT, "client2"), False),
        (EVERYTHING, CertifiedName("other", Role.CLIENT, "client1"), False),
    ],
)
def test_the_peer_must_be_who_is_expected_and_certified(
    expected: Expected, certified: CertifiedName | None, is_open: bool
) -> None:
    """At the accepting end, role and id must be admitted and must match the certificate."""
    ours = None if certified is None else CertifiedName("test", Role.HOST, "host1")
    one, other = connector(certified=ours), acceptor(expected, certified)
    shake_hands(one, other)
    assert (other.state is State.OPEN) is is_open
    assert (one.state is State.OPEN) is is_open
    if not is_open:
        assert one.reason is not None
        assert (one.reason.why, one.reason.by_peer) == (Why.REFUSED, True)


def test_the_connecting_end_checks_too() -> None:
    """The connecting end makes the same checks: it leaves a server of another identity with a Goodbye."""
    one, other = connector(Expected(id="host2")), acceptor()
    shake_hands(one, other)
    assert one.reason is not None
    assert (one.reason.why, one.reason.by_peer) == (Why.REFUSED, False)
    other.receive(one.take_output())
    assert other.reason is not None
    assert (other.reason.why, other.reason.by_peer) == (Why.REFUSED, True)


VERSION_1_HELLO = bytes.fromhex(
    "000000270199a8686f6c64666173740101a474657374a6636c69656e74a7636c69656e743100cd07d0cd3a98"
)
VERSION_1_GOODBYE = bytes.fromhex("0000000d0392a4646f6e65a6636c6f736564")


def test_version_1_is_refused_in_one_sentence() -> None:
    """A peer of the first version, which proves nothing, is told why it cannot come in; its Goodbye is
    understood forever."""
    session = acceptor()
    session.receive(VERSION_1_HELLO)
    (reason,) = said(session)
    assert reason.why is Why.VERSION
    assert reason.message == (
        "peer speaks versions 1 to 1, this end 2 to 2: bring both to the same release of Holdfast"
    )
    opened = open_acceptor()
    opened.receive(VERSION_1_GOODBYE)
    assert opened.reason == Reason(Why.DONE, "closed", by_peer=True)


# --- proofs


def test_who_does_not_know_the_secret_learns_and_opens_nothing() -> None:
    """The connecting end finds out first, and has shown nothing that an impostor could use."""
    one, other = connector(credentials=DomainSecret("test", b"x" * SECRET_BYTES)), acceptor()
    shake_hands(one, other)
    assert one.reason is not None
    assert one.reason.why is Why.SECRET
    assert "holdfast key NAME" in one.reason.message
    assert (one.agreed, other.agreed) == (None, None)


def test_an_impostor_that_listens_is_shown_no_proof() -> None:
    """Whoever squats a port gets a Hello and a Goodbye from a connecting end, and nothing else."""
    one, other = connector(), acceptor()
    one_hello = one.take_output()
    other.receive(one_hello)
    welcome_and_proof = other.take_output()
    one.receive(welcome_and_proof[:-1] + bytes([welcome_and_proof[-1] ^ 1]))
    decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
    decoder.feed(one.take_output())
    assert [kind for kind, _ in iter(decoder.take_one, None)] == [Kind.GOODBYE]


def test_a_proof_is_of_no_use_for_another_connection() -> None:
    """The proof that a connecting end showed once opens nothing for whoever repeats it."""
    one, other = connector(), acceptor()
    first = one.take_output()
    other.receive(first)
    one.receive(other.take_output())
    shown = one.take_output()
    again = Session(
        HOST,
        is_connector=False,
        payload_bytes_max=PAYLOAD_BYTES_MAX,
        idle_ms=15_000,
        expected=EVERYTHING,
        credentials=SECRET,
        nonce=b"b" * NONCE_BYTES,
    )
    again.receive(first + shown)
    assert again.reason is not None
    assert again.reason.why is Why.SECRET


def test_a_proof_cannot_be_sent_back() -> None:
    """The acceptor's own proof does not count as the connecting end's."""
    session = acceptor()
    session.receive(hello())
    decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
    decoder.feed(session.take_output())
    (own,) = (payload for kind, payload in iter(decoder.take_one, None) if kind is Kind.PROOF)
    session.receive(encode_frame(Kind.PROOF, own))
    assert session.reason is not None
    assert session.reason.why is Why.SECRET


def test_a_relay_is_noticed_before_anything_is_proved() -> None:
    """A squatter at the dialed address that passes everything on to the real process gets nowhere."""
    one, other = connector(address="127.0.0.1:9999"), acceptor(address="127.0.0.1:7400")
    shake_hands(one, other)
    assert one.reason is not None
    assert (one.reason.why, one.reason.by_peer) == (Why.REFUSED, False)
    assert "127.0.0.1:9999 passes this on to host host1 at 127.0.0.1:7400" in one.reason.message
    assert other.agreed is None
    same = connector(address="127.0.0.1:7400")
    shake_hands(same, acceptor(address="127.0.0.1:7400"))
    assert same.state is State.OPEN


def test_a_key_admits_the_client_of_its_name_and_nobody_else() -> None:
    """Both ends open, and the accepting end knows that it was a key. Another name's key is refused."""
    one, other = connector(credentials=SECRET.client_key("client1")), acceptor()
    shake_hands(one, other)
    assert other.agreed is not None
    assert (other.agreed.peer, other.agreed.proven_by) == (CLIENT, ProvenBy.KEY)
    for wrong in (SECRET.client_key("client2"), ClientKey("client1", SECRET.secret)):
        one, other = connector(credentials=wrong), acceptor()
        shake_hands(one, other)
        assert one.reason is not None
        assert one.reason.why is Why.SECRET
        assert other.agreed is None
    king = PeerIdentity("test", Role.ADMIN, "client1")
    one, other = connector(ours=king, credentials=SECRET.client_key("client1")), acceptor()
    shake_hands(one, other)
    assert one.reason is not None
    assert (one.reason.why, one.reason.by_peer) == (Why.REFUSED, True)


def test_a_server_may_have_no_place_for_a_peer_that_has_proved_itself() -> None:
    """The connecting end is told before it believes that it is connected."""
    full = Reason(Why.TOO_MANY_CONNECTIONS, "full")
    one, other = connector(), acceptor(admit=lambda agreed: full)
    shake_hands(one, other)
    assert one.reason == Reason(Why.TOO_MANY_CONNECTIONS, "full", by_peer=True)
    assert one.agreed is other.agreed is None


def test_a_key_survives_being_printed_and_is_never_shown_by_accident() -> None:
    key = SECRET.client_key("shop")
    assert ClientKey.parse(key.text) == key
    assert key.key.hex() not in repr(key)
    assert SECRET.secret.hex() not in repr(SECRET)
    for text in ("", "shop", "shop:", "shop:xyz", f":{key.key.hex()}", f"shop:{key.key.hex()[:-2]}"):
        with pytest.raises(InvalidRequest, match="NAME:KEY"):
            ClientKey.parse(text)


def test_frames_before_a_violation_are_given() -> None:
    """Frames before a violation are delivered; the violation and what follows it are not."""
    session = open_acceptor()
    good, bad = session.frame(Kind.HEARTBEAT, b"1"), encode_frame(Kind.HELLO, b"again")
    assert session.receive(good + bad + good) == [(Kind.HEARTBEAT, b"1")]
    assert session.reason is not None
    assert session.reason.why is Why.OUT_OF_ORDER


def test_alive_is_nobodys_business() -> None:
    """ALIVE frames between others are removed and change nothing."""
    session = open_acceptor()
    beat, alive = session.frame(Kind.HEARTBEAT, b"1"), encode_frame(Kind.ALIVE, b"")
    assert session.receive(beat + alive + beat) == [(Kind.HEARTBEAT, b"1")] * 2
    assert session.state is State.OPEN


def test_the_end_of_the_stream_inside_a_frame_is_truncation() -> None:
    """The stream's end is a loss between frames, a truncation inside one; the peer is told."""
    cut, clean = open_acceptor(), open_acceptor()
    cut.receive(cut.frame(Kind.HEARTBEAT, b"12345")[:-1])
    cut.receive_eof()
    clean.receive_eof()
    assert cut.reason is not None
    assert clean.reason is not None
    assert (cut.reason.why, clean.reason.why) == (Why.TRUNCATED, Why.LOST)
    assert [reason.why for reason in said(cut)] == [Why.TRUNCATED]
    assert said(clean) == []


def test_the_first_reason_stands() -> None:
    """A session ends once: neither a second end nor a late Goodbye changes the reason."""
    session = open_acceptor()
    session.end(Reason(Why.SHUTTING_DOWN, "bye"))
    session.end(Reason(Why.INTERNAL, "later"))
    session.receive_eof()
    assert session.reason == Reason(Why.SHUTTING_DOWN, "bye")
    assert [reason.why for reason in said(session)] == [Why.SHUTTING_DOWN]


def test_a_goodbye_is_read_with_care() -> None:
    """A code of a later version, control characters and great length do no harm."""
    session = open_acceptor()
    text = "\x1b[31m\n" + "x" * 500
    session.receive(encode_frame(Kind.GOODBYE, msgspec.msgpack.encode(["of_tomorrow", text])))
    assert session.reason is not None
    assert session.reason.by_peer
    assert session.reason.message.isprintable()
    assert len(session.reason.message) == 300


def test_names_that_cannot_travel_are_refused_at_home() -> None:
    """An identity is checked when it is created, not when the peer refuses it."""
    with pytest.raises(InvalidRequest):
        PeerIdentity("test", Role.HOST, "a b")
    with pytest.raises(InvalidRequest):
        PeerIdentity("", Role.HOST, "a")


@settings(max_examples=400)
@given(data=st.binary(max_size=600), is_connector=st.booleans())
def test_random_bytes_never_open_a_session(data: bytes, is_connector: bool) -> None:
    """Whatever an unknown peer sends, there is no frame, no exception, and at most one Goodbye."""
    session = connector() if is_connector else acceptor()
    session.take_output()
    assert session.receive(data) == []
    session.receive_eof()
    assert session.state is State.ENDED
    assert len(said(session)) <= 1


def test_mutated_conversations_end_in_a_documented_way(rounds: Callable[..., int]) -> None:
    """A good conversation with bytes changed, dropped, doubled or cut gives frames and then one reason, never
    an exception, and never holds more bytes than one frame."""
    one, other = connector(), acceptor()
    first = one.take_output()
    other.receive(first)
    one.receive(other.take_output())
    second = one.take_output()
    script = [
        first,
        second,
        *(encode_frame(Kind.STATUS_REQUEST, b"payload %d" % n) for n in range(8)),
        encode_frame(Kind.ALIVE, b""),
        encode_frame(Kind.GOODBYE, msgspec.msgpack.encode(["done", "closed"])),
    ]
    dice = random.Random(20)
    seen: set[Why] = set()
    for _ in range(rounds(short=3000, long=100_000)):
        session = acceptor()
        frames: list[Frame] = []
        for piece in mutate(script, dice):
            frames += session.receive(piece)
        session.receive_eof()
        assert session.reason is not None
        assert len(said(session)) <= 1
        assert all(kind >= 16 for kind, _ in frames)
        seen.add(session.reason.why)
    assert seen >= {Why.DONE, Why.LOST, Why.TRUNCATED, Why.MALFORMED, Why.OUT_OF_ORDER, Why.UNKNOWN_KIND}
    assert Why.FRAME_TOO_LONG in seen


def mutate(script: list[bytes], dice: random.Random) -> list[bytes]:
    frames = list(script)
    for _ in range(dice.randrange(3)):
        at = dice.randrange(len(frames))
        match dice.randrange(3):
            case 0:
                del frames[at]
            case 1:
                frames.insert(dice.randrange(len(frames)), frames[at])
            case _:
                frames[at] = frames[at][: dice.randrange(len(frames[at]) + 1)]
        if not frames:
            return []
    data = bytearray(b"".join(frames))
    for _ in range(dice.choice((0, 0, 1, 1, 2, 5)) if data else 0):
        data[dice.randrange(len(data))] = dice.randrange(256)
    step = dice.choice((1, 7, 64, 4096))
    return [bytes(data[i : i + step]) for i in range(0, len(data), step)]
