"""Look at a notebook as a reader does: `python -m tools.screenshots NOTEBOOK OUTDIR` runs it and takes its pictures."""

import argparse
import shutil
import tempfile
from pathlib import Path

from tools.lab import OpenNotebook, browser_page, jupyterlab


def screenshots(path: Path, out: Path, height: int = 1400) -> list[Path]:
    """Run the notebook in JupyterLab; save each output with a picture or panel, and the whole page in slices."""
    out.mkdir(parents=True, exist_ok=True)
    saved = []
    with (
        tempfile.TemporaryDirectory() as folder,
        jupyterlab(Path(shutil.copy(path, folder)).parent) as address,
        browser_page(height=height) as page,
    ):
        notebook = OpenNotebook(page, address, path.name)
        notebook.run_all(seconds=600)
        page.wait_for_timeout(1000)
        for index, cell in enumerate(notebook.code_cells.all()):
            for number, output in enumerate(cell.locator(".jp-OutputArea-child:has(img, svg, .jupyter-widgets)").all()):
                saved.append(out / f"{path.stem}-code{index:02d}-output{number}.png")
                output.scroll_into_view_if_needed()
                output.screenshot(path=saved[-1])
        scroller = page.locator(".jp-WindowedPanel-outer").first
        total = scroller.evaluate("e => e.scrollHeight")
        step = scroller.evaluate("e => e.clientHeight")
        for number, top in enumerate(range(0, total, step)):
            scroller.evaluate("(e, top) => { e.scrollTop = top; }", top)
            page.wait_for_timeout(200)
            saved.append(out / f"{path.stem}-page{number:02d}.png")
            page.screenshot(path=saved[-1])
        for text in notebook.errors():
            print(f"error on the page: {text.strip()[:200]}")
    return saved


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("outdir", type=Path)
    asked = parser.parse_args()
    for picture in screenshots(asked.notebook.resolve(strict=True), asked.outdir):
        print(picture)
