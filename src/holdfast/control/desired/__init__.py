"""What the domain shall be like: the body of the state context, and how it changes.

`state` and `changes` cover properties, groups, hosts and the fault notifier; `indexes` and `index_changes`
cover the search indexes.
"""
