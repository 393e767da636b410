"""A slot for what is executed (E4), as tests look at it."""

from holdfast.model.ids import ClientId, GroupId


class Notes:
    """A slot that remembers everything."""

    def __init__(self) -> None:
        self.written: list[tuple[ClientId, int, int, int] | None] = []

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
        self.written.append((client, first, last, attempts))

    def clear(self) -> None:
        self.written.append(None)
