"""Calling groups from a program: domains, proxies, and a synchronous interface.

`domain` finds groups, `url` reads where a domain is, `proxy` makes the methods of groups awaitable, `routing`
keeps connections and looks groups up, `sync` hides the event loop, `admin_client` gives orders about groups,
`resources` covers members, properties and factories, and `faults` reports and receives faults. The outcome of
a call is decided in :mod:`holdfast.calling`.
"""
