"""The control plane: who coordinates, what the domain shall be like, and what is done for it.

`coordination` changes one piece of state everywhere or nowhere, `desired` is that state, and `replication`
plans what makes the domain that way.
"""
