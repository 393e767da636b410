"""The types that all packages share: ids, CSNs, messages, errors, ports. It imports no other package.

`ids`, `csn` and `versions` say which and when, `calls`, `outcome` and `reference` what clients and groups
tell each other, `properties` what may be set of a group, `admin/` what may be ordered of a domain; `errors`
is the error family, `ports` what every core is built on. `deadlock` has how groups that wait for each other
are found.

Values are immutable and compare by value. No module here does IO, reads a clock, or keeps state. Behaviour
(generating CSNs, replicating, storing) belongs to the packages that import this one.
"""
