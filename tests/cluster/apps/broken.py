"""Cannot be imported."""


class Strict:
    def place(self, order: str) -> None: ...


raise RuntimeError("no licence found")
