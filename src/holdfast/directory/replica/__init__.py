"""One replica: what one master keeps of one suffix, and how clients and other masters reach it.

:mod:`.seam` is what replication builds on. :mod:`.replica` puts the rest together: what a client asks is
judged and becomes changes, and entries, what is shown of them, indexes, the changelog and the vector are
written in one transaction (G1). Searches are answered from a snapshot of the store alone.
"""
