"""How do entries and changes leave a directory, and come into one, as text?

``entry_text`` writes one entry with all its CSNs, and reads it back (the source's entry2str and str2entry);
``replica_text`` does so with what belongs to no entry: generation, vectors, what was purged. ``exporting``
makes an LDIF of a snapshot, with that state or without; ``loading`` makes the rows of a store of an LDIF
without going through operations, for many entries at once. ``changelog_text`` is the changelog for support.
``comparing`` tells two replicas' differences from what is only on its way. All are cores; ``loader`` next to
this package has the files.
"""
