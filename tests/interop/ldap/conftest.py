"""One directory for the tests of a module, and the programs that they need."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from ldap_door import EXAMPLE, Door, served

from means import missing

DEBIAN_PYTHON = Path("/usr/bin/python3")
PYTHON_LDAP = Path("/usr/lib/python3/dist-packages/ldap/__init__.py")


@pytest.fixture(scope="session")
def ldap_utils() -> None:
    if shutil.which("ldapsearch") is None:
        missing("ldapsearch (Debian: apt-get install ldap-utils)")


@pytest.fixture(scope="session")
def python_ldap() -> str:
    """A Python that has python-ldap: Debian's own, which needs no compiler."""
    if not DEBIAN_PYTHON.exists() or not PYTHON_LDAP.exists():
        missing("python-ldap (Debian: apt-get install python3-ldap)")
    return str(DEBIAN_PYTHON)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, ldap_utils: None) -> Iterator[Door]:
    with served(tmp_path_factory.mktemp("ldap")) as made:
        made.as_admin("ldapadd", given=EXAMPLE)
        yield made
