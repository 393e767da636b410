"""The command line: a face. It parses, calls, and shows; decisions belong to the packages it calls.

`holdfast <noun> <verb>`; data on stdout (`--output table|json`), talk on stderr; exit 0 done, 1 failed,
2 misused, 3 outcome unknown. The JSON forms are an interface: they change only by adding.
"""
