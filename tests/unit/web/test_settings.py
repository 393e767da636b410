"""The settings of the HTTP door, and what keeps it closed."""

from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.model.errors import InvalidRequest
from holdfast.settings.file import APPLIED
from holdfast.web.settings import FILE, Client, HttpSettings, read_settings

TOKEN = sha256(b"secret").hexdigest()


def test_without_a_file_only_this_machine_is_let_in(tmp_path: Path) -> None:
    """Safe by default: loopback, a free port."""
    assert read_settings(tmp_path) == HttpSettings(listen="127.0.0.1:0")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "Expected `object`"),
        ('{"listen": "nowhere"}', "must be host:port"),
        ('{"lisen": ""}', "unknown field"),
        ('{"loopback": "root"}', "loopback"),
        ('{"clients": {"a b": {"token_sha256": "' + TOKEN + '"}}}', "'a b' cannot be a client's name"),
        ('{"clients": {"shop": {"token_sha256": "secret"}}}', "64 lower-case hexadecimal digits"),
        ("[" * 5000, "cannot be used"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    """The error names the file and the reason."""
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRequest, match=FILE) as raised:
        read_settings(tmp_path)
    assert complaint in str(raised.value)


def test_where_it_listens_may_stand_in_the_domains_settings(tmp_path: Path) -> None:
    """Who may come in stays in its own file, and what is said in both is refused."""
    (tmp_path / APPLIED).write_text('[http]\nlisten = "127.0.0.1:8080"\nloopback = "nobody"\n')
    assert read_settings(tmp_path) == HttpSettings(listen="127.0.0.1:8080", loopback="nobody")
    (tmp_path / FILE).write_text('{"clients": {"shop": {"token_sha256": "' + TOKEN + '"}}}')
    found = read_settings(tmp_path)
    assert (found.listen, found.loopback, list(found.clients)) == ("127.0.0.1:8080", "nobody", ["shop"])
    (tmp_path / FILE).write_text('{"listen": "127.0.0.1:9090"}')
    with pytest.raises(InvalidRequest, match="listen stands in"):
        read_settings(tmp_path)


def test_the_machines_default_holds_where_nothing_is_said(tmp_path: Path) -> None:
    default = HttpSettings(listen="127.0.0.2:0")
    assert read_settings(tmp_path, default) == default
    (tmp_path / APPLIED).write_text('[leases]\nlease = "2 s"\n')
    assert read_settings(tmp_path, default) == default


@pytest.mark.parametrize(
    ("settings", "is_open"),
    [
        (HttpSettings(listen="0.0.0.0:80"), False),
        (HttpSettings(listen="0.0.0.0:80", insecure=True), False),
        (HttpSettings(listen="0.0.0.0:80", clients={"shop": Client(token_sha256=TOKEN)}), False),
        (
            HttpSettings(listen="0.0.0.0:80", insecure=True, clients={"shop": Client(token_sha256=TOKEN)}),
            True,
        ),
        (HttpSettings(listen="0.0.0.0:80", certs="certs"), True),
        (HttpSettings(listen="127.0.0.1:80"), True),
        (HttpSettings(listen=""), True),
    ],
)
def test_beyond_this_machine_it_takes_tls_and_known_clients(settings: HttpSettings, is_open: bool) -> None:
    """Certificates provide both; without TLS only if explicitly permitted, and never for everybody."""
    assert (settings.problems() == []) == is_open
