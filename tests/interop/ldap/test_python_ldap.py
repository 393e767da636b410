"""python-ldap, which is libldap, against the door."""

import json
import subprocess
from pathlib import Path

from ldap_door import ADMIN, PASSWORD, SUFFIX, Door

STEPS = Path(__file__).parent / "python_ldap_steps.py"


def test_python_ldap(door: Door, python_ldap: str) -> None:
    """StartTLS, the schema, binary values, reads after a change, renames, pages, order, passwords."""
    done = subprocess.run(
        [python_ldap, str(STEPS), door.url, SUFFIX, ADMIN, PASSWORD, str(door.certificates.ca)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    pages = said.pop("pages")
    names = [name for page in pages for name in page]
    assert [len(page) for page in pages[:-1]] == [3] * (len(pages) - 1)
    assert len(names) == len(set(names)) >= 9
    assert said == {
        "who": f"dn:{ADMIN}",
        "subschema": "cn=subschema",
        "classes": [],
        "same": True,
        "after": ["Dr"],
        "compare": True,
        "sorted": ["turing", "bob", "ada"],
        "other": f"dn:uid=turing,ou=servers,{SUFFIX}",
        "refused": True,
    }
