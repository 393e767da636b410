"""Calling groups from a program: domains, proxies, and a face for programs without an event loop.

`domain` finds groups, `proxy` makes their methods awaitable, `routing` keeps connections and looks groups up,
`sync` hides the event loop, `admin_client` gives orders about groups, `resources` has members, properties and
factories, `faults` what goes wrong. What becomes of a call is decided in :mod:`holdfast.calling`.
"""
