"""Source code as a result: highlighted in a notebook, plain elsewhere."""


class Source:
    """Source code that shows highlighted in a notebook and plain elsewhere."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __repr__(self) -> str:
        return self.source

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.source}\n```"
