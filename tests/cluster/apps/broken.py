"""A module that cannot be imported."""


class Strict:
    def place(self, order: str) -> None: ...


raise RuntimeError("no licence found")
