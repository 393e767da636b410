"""Changes the state context on every host or on none.

Each host that takes part runs the `participant`, in one role at a time: `bootstrap`, `coordinator` or
`replica`. An update is a two-phase commit whose commit point is a record at the authority. `state_file` keeps
a host's context on disk, and `dedup` makes a repeated change only once. To this package the context is just
bytes; the application on top gives them a meaning.
"""
