"""The command line: it parses, calls and shows. Decisions belong to the packages that it calls.

Commands have the form `holdfast <noun> <verb>`. Data goes to stdout (`--output table|json`), messages go to
stderr. The exit code is 0 for done, 1 for failed, 2 for misused, 3 for an unknown outcome. The JSON forms are
an interface: they change only by additions.
"""
