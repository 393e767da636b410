"""Compares the desired with the observed state of the domain, and plans what to do about the difference.

`spec` holds both states, `planner` computes the actions that turn one into the other, by `locations`, roles
and named hosts; `steps` applies them to a group's record. `criteria` are what factories are told, and
`reactions` follow from reported faults.
"""
