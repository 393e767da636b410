"""The application's code: found, loaded, told apart by version and digest, kept, and replayed by (E7).

`finder` finds a class without importing it, `loader` loads what is allowed, `digest` says which code it is,
`copies` keeps its source, and `replayer` has a process of its own (`replay_process`) execute what another
version of it recorded. `trial_process` tries new code on a group's state and changes nothing.
"""
