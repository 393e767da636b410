"""The demo: a service under load while its hosts are killed and paused, and what came of every call.

Owns a domain of its own in a directory that goes with it (:mod:`.domain`), callers of which every call can be
told apart (:mod:`.calls`), the faults (:mod:`.faults`), and a reader that counts from the files of the
stopped members, not from what they answered (:mod:`.calls`). Showing it is the command line's.
"""
