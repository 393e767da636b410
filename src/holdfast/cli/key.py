"""``holdfast key``: the keys with which clients prove who they are where there are no certificates."""

import sys

from cyclopts import App

from holdfast.cli.output import say, talk
from holdfast.cli.where import Dir
from holdfast.model.errors import InvalidRequest
from holdfast.net import ClientKey
from holdfast.net.handshake import check_name
from holdfast.net.secret_file import keep_key
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

app = App(name="key", help="Make keys for clients, and keep those of other domains.")


@app.default
def key(name: str, /, *, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Print the key of the client NAME: it admits that client to the domain, and nobody else.

    Whoever has it may do what `http.json` allows to NAME. A program passes it to `hf.connect(url, key=...)`,
    or in the URL: `holdfast://NAME:KEY@127.0.0.1:7400/domain`. The same key is printed each time.

    Parameters
    ----------
    name
        The client's name.
    dir
        The domain's directory.
    """
    check_name("client", name)
    layout = Layout(dir)
    description = layout.read()
    if description.certs:
        raise InvalidRequest(
            "this domain's clients prove who they are with certificates: "
            f"`holdfast certs issue --role client --id {name}` makes one"
        )
    made = layout.secret(description.domain).client_key(name)
    say(made.text)
    talk.print("keep it to yourself: it is what proves to the domain who you are", soft_wrap=True)
    return 0


@app.command
def keep(domain: str, /, *, dir: Dir = DIRECTORY_DEFAULT) -> int:
    """Keep the key that another DOMAIN gave to this one, so that this domain's groups may call groups there.

    The key is read from the standard input, because others could see it among a command's arguments:
    `holdfast key NAME --dir THERE | holdfast key keep DOMAIN --dir HERE`.

    Parameters
    ----------
    domain
        The other domain's name, as it stands in its URL.
    dir
        This domain's directory.
    """
    layout = Layout(dir)
    layout.read()
    keep_key(layout.directory, domain, ClientKey.parse(sys.stdin.readline().strip()))
    talk.print(f"groups of {layout.directory} may call groups of {domain}", soft_wrap=True)
    return 0
