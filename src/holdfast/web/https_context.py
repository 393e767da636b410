"""The TLS of an HTTP door, which follows its certificate files while the server runs.

The server keeps the context that it began with, and a context never forgets an authority that it once
trusted. So a new context is made of new files, and every handshake is moved to the newest one as it begins.
*Without it:* an authority that was removed from ``ca.pem``, because its key was stolen, is trusted until the
host restarts.
"""

import ssl

from holdfast.net.tls import Tls


class HttpsContext:
    """The contexts of one door. :attr:`first` is for the server; certificates of clients are optional, as
    others have tokens."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self.first = self._newest()
        self.first.sni_callback = self._on_handshake
        self._generation = tls.generation

    def take_renewal(self) -> bool:
        """Whether the files were replaced since the last call: connections made before used older ones."""
        before, self._generation = self._generation, self._tls.generation
        return self._generation != before

    def _newest(self) -> ssl.SSLContext:
        context = self._tls.acceptor
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _on_handshake(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        """Called for every handshake before a certificate is sent or checked, also without a name."""
        newest = self._newest()
        if connection.context is not newest:
            connection.context = newest
