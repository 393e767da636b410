"""The demo: a service under load while its hosts are killed and paused, with every call accounted for.

It has its own domain in a temporary directory (:mod:`.domain`), callers whose every call can be distinguished
(:mod:`.calls`), the faults (:mod:`.faults`), and a reader that counts from the files of the stopped members,
not from what they answered (:mod:`.calls`). The command line shows the results.
"""
