"""Addresses, and the bounds of connections."""

import pytest

from holdfast.model.errors import InvalidRequest
from holdfast.model.validation import insist_valid
from holdfast.net import Address, Limits
from holdfast.net.address import require_safe


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7000", Address("127.0.0.1", 7000)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:65535", Address("::1", 65535)),
        ("host.example:80", Address("host.example", 80)),
    ],
)
def test_addresses_round_trip(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "host", ":80", "host:", "host:65536", "host:-1", "::1:80", "host:８0", "h:1x"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Address.parse(text)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_only_this_machine_may_be_spoken_to_plainly(host: str, is_loopback: bool) -> None:
    """Any other address needs TLS or an explicit request."""
    address = Address(host, 1)
    assert address.is_loopback is is_loopback
    require_safe(address, has_tls=True, insecure=False)
    require_safe(address, has_tls=False, insecure=True)
    if not is_loopback:
        with pytest.raises(InvalidRequest, match="--insecure"):
            require_safe(address, has_tls=False, insecure=False)


def test_limits_name_every_problem() -> None:
    assert Limits().validate() == []
    problems = Limits(frame_bytes_max=1 << 40, connections_max=0, idle_s=0).validate()
    assert {"frame_bytes_max", "connections_max", "idle_s"} <= {name for name, _ in problems}
    with pytest.raises(InvalidRequest, match="unsent_bytes_low must be above 0 and below unsent_bytes_high"):
        insist_valid(Limits(unsent_bytes_low=5, unsent_bytes_high=5), "limits")
