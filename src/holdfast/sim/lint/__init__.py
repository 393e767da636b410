"""Checks that read source code.

They look for modules that reach outside the simulator, for results that depend on the order of a set, and for
classes that members of a group would execute differently.
"""
