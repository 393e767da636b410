"""The control plane: which host coordinates the domain, what the domain shall be like, and how it gets there.

`coordination` changes one piece of state on every host or on none, `desired` is that state, and `replication`
plans the actions that make the domain match it.
"""
