"""The steps of test_python_ldap, run by Debian's Python, which has python-ldap. Prints JSON."""

import json
import sys

import ldap
import ldap.modlist
import ldap.schema
from ldap.controls import SimplePagedResultsControl
from ldap.controls.readentry import PostReadControl
from ldap.controls.sss import SSSRequestControl

url, suffix, admin, password, ca = sys.argv[1:6]
people = f"ou=people,{suffix}"
said = {}

ldap.set_option(ldap.OPT_X_TLS_CACERTFILE, ca)
ldap.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
connection = ldap.initialize(url)
connection.start_tls_s()
connection.simple_bind_s(admin, password)
said["who"] = connection.whoami_s()

where, schema = ldap.schema.subentry.urlfetch(f"{url}/")
said["subschema"] = where
said["classes"] = schema.get_obj(ldap.schema.ObjectClass, "inetOrgPerson").must

dn = f"uid=alan,{people}"
entry = {
    "objectClass": [b"inetOrgPerson"],
    "uid": [b"alan"],
    "cn": [b"Alan"],
    "sn": [b"Turing"],
    "jpegPhoto": [b"\xff\xd8\xff" + bytes(range(256)) * 300],
}
connection.add_s(dn, ldap.modlist.addModlist(entry))
found = connection.search_s(dn, ldap.SCOPE_BASE)
said["same"] = found[0][1] == entry
control = PostReadControl(criticality=True, attrList=["title"])
message = connection.modify_ext(dn, [(ldap.MOD_ADD, "title", [b"Dr"])], serverctrls=[control])
_, _, _, answers = connection.result3(message)
said["after"] = [value.decode() for value in answers[0].entry["title"]]
said["compare"] = connection.compare_s(dn, "title", b"DR")
connection.rename_s(dn, "uid=turing", newsuperior=f"ou=servers,{suffix}", delold=1)

pages = []
control = SimplePagedResultsControl(True, size=3, cookie="")
while True:
    message = connection.search_ext(
        suffix, ldap.SCOPE_SUBTREE, "(objectClass=*)", ["1.1"], serverctrls=[control]
    )
    _, data, _, answers = connection.result3(message)
    pages.append([name for name, _ in data])
    cookie = next(each for each in answers if each.controlType == control.controlType).cookie
    if not cookie:
        break
    control.cookie = cookie
said["pages"] = pages
message = connection.search_ext(
    suffix, ldap.SCOPE_SUBTREE, "(uid=*)", ["uid"], serverctrls=[SSSRequestControl(ordering_rules=["-uid"])]
)
said["sorted"] = [attributes["uid"][0].decode() for _, attributes in connection.result3(message)[1]]
connection.passwd_s(f"uid=turing,ou=servers,{suffix}", None, "enigma")
other = ldap.initialize(url)
other.simple_bind_s(f"uid=turing,ou=servers,{suffix}", "enigma")
said["other"] = other.whoami_s()
try:
    other.delete_s(people)
except ldap.INSUFFICIENT_ACCESS:
    said["refused"] = True
connection.delete_s(f"uid=turing,ou=servers,{suffix}")
connection.unbind_s()
print(json.dumps(said))
