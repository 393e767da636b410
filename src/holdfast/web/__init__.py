"""The HTTP/JSON door of a host: for people with curl, other languages, monitors and the console.

It decides nothing itself. Calls go out through a client of the host's own, and orders go to the same place as
those of the command line. The package defines who may come in (`access`), all limits (`settings`), the one
form of errors (`problems`), and the table of endpoints from which routes, `/openapi.json` and `/docs` are
made.

Invariants: what is not allowed is refused before anything is looked up; every answer but streams, metrics and
the docs page is JSON; a repeated ``Idempotency-Key`` is one request (`calls`).
"""
