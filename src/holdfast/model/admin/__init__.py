"""The requests of an administrator to a domain, and the domain's answers: values only.

`groups` creates, lists, deletes and moves groups, and has the union of all requests. `hosts`, `objects`,
`upgrades` and `domain` (its own state, and indexes) have the other requests; `errors` has what may be wrong
with one. Any host answers any request; :mod:`holdfast.admin` carries them out.
"""
