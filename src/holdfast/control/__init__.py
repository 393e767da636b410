"""The control plane: who coordinates, and how the state context changes everywhere or nowhere.

Each host that takes part runs a :class:`~holdfast.control.manager.Manager`. What the context holds is the
business of the application that stands on it.
"""
