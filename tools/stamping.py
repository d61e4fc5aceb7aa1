"""Writing the repository's address where readers need it: pyproject.toml, the set-up cells, README and Colab badges."""

import re
from collections.abc import Sequence
from pathlib import Path

from tools import chapters, setup_cell
from tools.refresh import read, write

BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
BADGE_LINE = re.compile(r"\n*\[!\[[^\]]*\]\(" + re.escape(BADGE) + r"\)\]\([^)]*\)")
README_BLOCK = re.compile(r"(<!-- colab -->\n).*?(<!-- /colab -->)", re.DOTALL)


def write_address(repository: str, root: Path) -> None:
    """Write the address of the GitHub repository `owner/name` into pyproject.toml; ValueError for another form."""
    if not re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", repository):
        raise ValueError(f"the repository is named {repository!r}, wanted owner/name")
    path = root / "pyproject.toml"
    line = f'[project.urls]\nRepository = "https://github.com/{repository}"\n'
    path.write_text(re.sub(r'\[project\.urls\]\n(Repository = ".*"\n)?', line, path.read_text("utf-8")), "utf-8")


def stamp(root: Path, notebooks: Sequence[Path]) -> None:
    """Bring README and the notebooks in line with the address in pyproject.toml, whether there is one or none."""
    address = setup_cell.address(root)
    links = {path: colab_link(address, path) for path in notebooks if chapters.number(path)}
    for path in notebooks:
        notebook = read(path)
        first = next((c for c in notebook.cells if c.cell_type == "code"), None)
        if first is not None:
            first.source = setup_cell.text(address)
        title = notebook.cells[0]
        bare = BADGE_LINE.sub("", title.source)
        head, *rest = bare.split("\n", 1)
        title.source = (
            "\n".join([f"{head}\n\n[![Open in Colab]({BADGE})]({colab_link(address, path)})", *rest])
            if address
            else bare
        )
        write(notebook, path)
    readme = root / "README.md"
    if readme.exists():
        lines = "".join(f"- [Chapter {chapters.number(p)} in Colab]({link})\n" for p, link in links.items())
        block = f"Open a chapter without installing anything:\n\n{lines}\n" if address and lines else ""
        readme.write_text(README_BLOCK.sub(lambda m: m[1] + block + m[2], readme.read_text("utf-8")), "utf-8")


def colab_link(address: str, path: Path) -> str:
    """Return the address at which Colab opens a notebook of the GitHub repository at `address`."""
    return f"https://colab.research.google.com/github/{address.removeprefix('https://github.com/')}/blob/main/notebooks/{path.name}"
