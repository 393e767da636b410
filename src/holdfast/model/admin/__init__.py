"""What an administrator may ask of a domain, and what the domain answers: values alone.

`groups` creates, lists, deletes and moves groups and holds the union of all requests; `hosts`, `objects`,
`upgrades` and `domain` (its own state, and indexes) hold the rest, `errors` what may be wrong with a request.
Every request is answered by whichever host is asked; :mod:`holdfast.admin` carries them out.
"""
