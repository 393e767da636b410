"""Stored passwords: what other servers wrote is read, and what is no hash counts as a password in clear."""

import base64
import hashlib

import pytest

from holdfast.directory.replica.passwords import hashed, is_hashed, verified
from holdfast.ldap.binding import NOBODYS

SALT = b"salt"


def salted(scheme: str, digest: str, password: bytes, salt: bytes) -> bytes:
    data = hashlib.new(digest, password + salt).digest() + salt
    return f"{{{scheme}}}".encode() + base64.b64encode(data)


def adapted(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=").replace(b"+", b".")


@pytest.mark.parametrize(
    "stored",
    [
        hashed(b"secret", b"0" * 16, 10),
        salted("SSHA", "sha1", b"secret", SALT),
        salted("ssha256", "sha256", b"secret", SALT),
        salted("SSHA512", "sha512", b"secret", SALT),
        salted("SHA", "sha1", b"secret", b""),
        b"{PBKDF2-SHA256}1$c2FsdA$" + adapted(hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 1)),
    ],
)
def test_a_stored_hash_knows_its_password(stored: bytes) -> None:
    assert is_hashed(stored)
    assert verified(b"secret", stored)
    assert not verified(b"Secret", stored)
    assert not verified(b"", stored)


@pytest.mark.parametrize(
    "value",
    [
        b"secret",
        b"",
        b"{SSHA}",
        b"{CLEARTEXT}x",
        b"{PBKDF2-SHA512}10$x",
        b"{SSHA}!!!",
        b"{PBKDF2-SHA512}999999999$a$b",
    ],
)
def test_everything_else_is_a_password_in_clear(value: bytes) -> None:
    assert not is_hashed(value)
    assert not verified(b"secret", value)


def test_an_endless_hash_is_not_computed() -> None:
    """A stored value that asks for ten million rounds or more is never right."""
    assert not verified(b"secret", b"{PBKDF2-SHA512}99999999$c2FsdA$c2FsdA")


def test_the_hash_of_nobody_is_computed() -> None:
    """A name that does not exist takes as long as one that does."""
    assert is_hashed(NOBODYS)
    assert not verified(b"nobody", NOBODYS)


def test_two_hashes_of_one_password_differ() -> None:
    assert hashed(b"secret", b"0" * 16, 10) != hashed(b"secret", b"1" * 16, 10)
