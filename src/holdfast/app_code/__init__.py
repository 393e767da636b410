"""The application's code: finding, loading, identifying, storing and replaying it (E7).

`finder` finds a class without importing it, `loader` loads the classes that are allowed, `digest` identifies
their code by version and digest, and `copies` stores their source. `replayer` lets a separate process
(`replay_process`) execute what another version of the code recorded. `trial_process` tries new code on a
group's state and changes nothing. `known_code` stores and announces the code of this host's groups.
"""
