"""``holdfast group``: :mod:`.commands` to create, show, move and delete groups, :mod:`.members` for their
members, :mod:`.recover` for groups that wait for a person, :mod:`.upgrade` for new code."""
