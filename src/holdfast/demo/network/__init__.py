"""Machines on this one: network namespaces, joined by a router whose links fail on command.

``internet`` is what a demo or a test uses. The router is a process of its own (``router_process``), which
makes each machine (``tun``) and treats packets as each link's conditions say (``links``). It is told what to
do over a socket (``control``) and takes the network away with it when that closes.
"""
