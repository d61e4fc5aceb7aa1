"""The repository's address is written in one place and stamped from there; nothing pretends before that."""

import nbformat
import pytest

from tools import refresh, setup_cell, stamping

README = "# Title\n\n<!-- colab -->\n<!-- /colab -->\n\nText.\n"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n\n# here\n[project.urls]\n\n[tool.x]\na = 1\n')
    (tmp_path / "README.md").write_text(README)
    cells = [nbformat.v4.new_markdown_cell("# Chapter\n\nA question?"), nbformat.v4.new_code_cell("old")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "01_small.ipynb")
    return tmp_path


def test_without_an_address_nothing_looks_like_a_link(root):
    path = root / "01_small.ipynb"
    stamping.stamp(root, [path])
    title, code = refresh.read(path).cells
    assert code.source == setup_cell.text("")
    assert title.source == "# Chapter\n\nA question?"
    assert (root / "README.md").read_text() == README


def test_an_address_is_stamped_and_stamped_over(root):
    path = root / "01_small.ipynb"
    for repository in ("old/name", "owner/name.x"):
        stamping.write_address(repository, root)
        stamping.stamp(root, [path])
    address = f"https://github.com/{repository}"
    assert setup_cell.address(root) == address
    assert "old/name" not in (root / "pyproject.toml").read_text() + (root / "README.md").read_text()
    title, code = refresh.read(path).cells
    assert code.source == setup_cell.text(address)
    link = f"https://colab.research.google.com/github/{repository}/blob/main/notebooks/01_small.ipynb"
    assert title.source == f"# Chapter\n\n[![Open in Colab]({stamping.BADGE})]({link})\n\nA question?"
    assert (root / "README.md").read_text().count(link) == 1


def test_taking_the_address_out_takes_the_links_out(root):
    path = root / "01_small.ipynb"
    stamping.stamp(root, [path])
    bare = path.read_bytes(), (root / "README.md").read_bytes()
    text = (root / "pyproject.toml").read_text()
    stamping.write_address("owner/name", root)
    stamping.stamp(root, [path])
    (root / "pyproject.toml").write_text(text)
    stamping.stamp(root, [path])
    assert (path.read_bytes(), (root / "README.md").read_bytes()) == bare


@pytest.mark.parametrize("repository", ["name", "https://github.com/owner/name", "owner/name/more", "ow ner/name"])
def test_another_form_is_refused(root, repository):
    with pytest.raises(ValueError, match="wanted owner/name"):
        stamping.write_address(repository, root)
