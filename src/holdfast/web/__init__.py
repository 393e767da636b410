"""The HTTP/JSON door of a host: for people with curl, other languages, monitors and the console.

A face: it decides nothing. Calls go out through a client of the host's own, orders to the same place as those
of the command line. It owns who may come in (`policy`), how much of everything (`bounds`), the one form of
errors (`problems`), and the table of endpoints from which routes, `/openapi.json` and `/docs` are made.
Invariants: what is not allowed is refused before anything is looked up; every answer but streams, metrics and
the docs page is JSON; a repeated ``Idempotency-Key`` is one request (`keying`).
"""
