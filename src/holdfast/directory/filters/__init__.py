"""Search filters: a tree (:mod:`.filter`), its text (:mod:`.text`), and what it means (:mod:`.evaluation`).

A filter's depth and size are bounded where it is read. What a client compares with is made comparable once
for a search, by the schema; mistakes make a part of a filter undefined, and are no errors.
"""
