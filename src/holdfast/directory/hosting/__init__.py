"""How a host has replicas of directories: their files, links to other masters, lives and orders.

Drivers, but for ``orders``, the values in which people ask, and ``sample``. A domain may have several
directories, each of one suffix: ``places`` says where its files are,
``hosted_directory`` is one of them on this host, and ``arrivals`` finds out which a connection is for.
``hosted_replica`` is the life of one replica: who its store is (``opening``), a copy if it needs one, then
the replica with its links (``serving``); ``files`` binds its ports to the machine. A copy is another's file
(``copy_offers`` makes it, ``file_copying`` fetches it, ``shipped_copy`` puts it in place), or its rows where
that fails (``copying``). ``peer_links`` are the connections between masters, one for each pair and suffix.
``following`` keeps what the domain knows of its directories, ``administration`` carries out orders. The
host's service (``node/directory_service``) puts them together; the LDAP door is told of replicas.
"""
