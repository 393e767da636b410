"""Which searches below ``cn=config`` look at conflicts."""

import pytest

from holdfast.directory.dn import Dn
from holdfast.directory.operations import Scope
from holdfast.ldap.config_entries import CONFLICTS_DN, REPLICA_DN, may_find_conflicts
from holdfast.ldap.server_entries import CONFIG_DN, GENERATOR_DN


@pytest.mark.parametrize(
    ("dn", "scopes"),
    [
        (CONFIG_DN, (Scope.SUBTREE, Scope.SUBORDINATES)),
        (GENERATOR_DN, ()),
        (REPLICA_DN, ()),
        (f"cn=o\\=other,{REPLICA_DN}", ()),
        (CONFLICTS_DN, tuple(Scope)),
        (f"conflictID=1,{CONFLICTS_DN}", tuple(Scope)),
        ("CN = \\20Conflicts , CN=config", tuple(Scope)),
    ],
)
def test_a_monitor_s_reads_do_not_list_thousands_of_conflicts(dn: str, scopes: tuple[Scope, ...]) -> None:
    assert tuple(each for each in Scope if may_find_conflicts(Dn.parse(dn), each)) == scopes
