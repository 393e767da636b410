"""The flags with which commands are told what an etcd asks for: certificates, a user, a prefix of keys."""

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from holdfast.authority.move.connecting import keep_access, read_password
from holdfast.authority.move.place import EtcdAccess
from holdfast.model.errors import InvalidRequest

PASSWORD_VARIABLE: Final = "HOLDFAST_ETCD_PASSWORD"


@Parameter(name="*")
@dataclass(frozen=True)
class EtcdFlags:
    """What the etcd asks for; it is copied into the domain's directory, readable by its owner alone."""

    etcd_ca: Path | None = None
    """The certificate of whoever signed etcd's own; without it, the system's certificates decide."""
    etcd_cert: Path | None = None
    """A client certificate for etcd."""
    etcd_key: Path | None = None
    """The key of the client certificate."""
    etcd_user: str = ""
    """A user of etcd. Its password comes from a file or from HOLDFAST_ETCD_PASSWORD."""
    etcd_password_file: Path | None = None
    """The file whose first line is the password; nobody but its owner may be able to read it."""
    etcd_prefix: str = ""
    """What stands before every key (default: the domain's id)."""

    @property
    def has_tls(self) -> bool:
        return self.etcd_ca is not None or self.etcd_cert is not None

    @property
    def is_given(self) -> bool:
        return self != EtcdFlags()

    def keep(self, directory: Path, endpoints: tuple[str, ...]) -> EtcdAccess:
        """Copy what was given into the domain's *directory*; raises ``InvalidRequest`` for what is amiss."""
        if bool(self.etcd_cert) != bool(self.etcd_key):
            raise InvalidRequest("--etcd-cert and --etcd-key go together: give both or neither")
        password = ""
        if self.etcd_user:
            password = os.environ.get(PASSWORD_VARIABLE, "")
            if self.etcd_password_file is not None:
                password = read_password(self.etcd_password_file)
        elif self.etcd_password_file is not None:
            raise InvalidRequest("--etcd-password-file is the password of a user: give --etcd-user too")
        return keep_access(
            directory,
            name=sha256(",".join(endpoints).encode()).hexdigest()[:8],
            prefix=self.etcd_prefix,
            ca=self.etcd_ca,
            certificate=self.etcd_cert,
            key=self.etcd_key,
            user=self.etcd_user,
            password=password,
        )


Etcd = Annotated[EtcdFlags | None, Parameter(name="*")]
