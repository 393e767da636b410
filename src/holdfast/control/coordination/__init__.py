"""How the state context changes on every host or on none.

Each host that takes part runs the `participant`, in one role at a time: `bootstrap`, `coordinator` or
`replica`. An update is a two-phase commit whose commit point is a record at the authority; `state_file` keeps
what a host holds, and `dedup` grants a repeated change once. What the context holds is the business of the
application that stands on it.
"""
