"""How a host has a replica of a directory: its files, its links to other masters, its life, its orders.

Drivers, but for ``orders``, the values in which people ask, and ``sample``. ``hosted_replica`` is the life of
one replica: who its store is (``opening``), a copy if it needs one, then the replica with its links
(``serving``); ``files`` binds its ports to the machine. A copy is another's file (``copy_offers`` makes it,
``file_copying`` fetches it, ``shipped_copy`` puts it in place), or its rows where that fails (``copying``).
``peer_links`` are the connections between masters, one for each pair. ``following`` keeps what the domain
knows of the directory, ``administration`` carries out orders. The host's service (``node/directory_service``)
puts them together; the LDAP door is told which replica there is.
"""
