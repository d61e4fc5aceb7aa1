"""A real JupyterLab in a headless Chromium, with nothing of the user's in it, driven as a reader would."""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Locator, Page, sync_playwright

from tools.kernels import clean_environment
from tools.setup_cell import ROOT

CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# Only what hangs is ended: each is ten times what a quiet machine needs, or more.
START_SECONDS, PAGE_SECONDS, CELL_SECONDS, NOTEBOOK_SECONDS, STOP_SECONDS = 600, 300, 600, 1800, 200
PROMPTS = ".jp-CodeCell .jp-InputArea-prompt"
# No question about news over the page, and every cell in it even when scrolled out of sight.
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},
}


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Serve `folder` from a JupyterLab without token, settings or history; yield its address and end it after."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    options = [
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={folder}",
        "--IdentityProvider.token=",
        "--LabApp.extension_manager=readonly",
    ]
    with clean_environment() as environment:
        home = Path(environment["JUPYTER_CONFIG_DIR"])
        for name, content in SETTINGS.items():
            path = home / f"lab/user-settings/@jupyterlab/{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content))
        log = (home / "lab.log").open("w+")
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            # A copied notebook stands outside the clone.
            env=environment | {"HOME": str(home), "PYTHONPATH": str(ROOT)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_for(address, server, Path(log.name))
            yield address
        finally:
            # The server ends its kernels itself when it is asked to.
            server.terminate()
            try:
                server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            log.close()


def _wait_for(address: str, server: subprocess.Popen, log: Path, seconds: float = START_SECONDS) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError):  # nobody listens yet, or nobody answers
            urllib.request.urlopen(f"{address}/api", timeout=50).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


@contextlib.contextmanager
def browser_page(width: int = 1280, height: int = 1000, scale: float = 1) -> Iterator[Page]:
    """Yield an empty page of a headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=CHROMIUM_FLAGS, timeout=START_SECONDS * 1000
        )
        try:
            context = browser.new_context(
                viewport={"width": width, "height": height}, device_scale_factor=scale, locale="en-GB"
            )
            context.set_default_timeout(PAGE_SECONDS * 1000)
            yield context.new_page()
        finally:
            browser.close()


def end_kernels(page: Page, address: str) -> None:
    """End all kernels of the JupyterLab that `page` has shown."""
    for session in page.request.get(f"{address}/api/sessions").json():
        cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies(address)}
        answer = page.request.delete(
            f"{address}/api/sessions/{session['id']}", headers={"X-XSRFToken": cookies["_xsrf"]}
        )
        if not answer.ok:
            raise RuntimeError(f"a kernel does not end: {answer.status} {answer.text()}")


class OpenNotebook:
    """A notebook open in JupyterLab's single-document view, and what a reader does with it."""

    def __init__(self, page: Page, address: str, name: str):
        self.page = page
        page.goto(f"{address}/doc/tree/{name}")
        page.locator(".jp-NotebookPanel-notebook").wait_for()
        page.locator(".jp-CodeCell").first.wait_for()
        # Before the kernel answers, a command to run cells is lost; the status bar is the first to know that it does.
        page.locator("#jp-main-statusbar", has_text="| Idle").wait_for()

    @property
    def code_cells(self) -> Locator:
        """All code cells, in order."""
        return self.page.locator(".jp-CodeCell")

    def run_all(self, seconds: float = NOTEBOOK_SECONDS) -> None:
        """Choose Run ▸ Run All Cells from the menu, and wait until nothing runs any more."""
        # Stored notebooks show counts before they run; with the prompts empty, what shows next is new.
        self.page.locator(PROMPTS).evaluate_all("all => all.forEach(e => { e.textContent = ''; })")
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self.wait_until_idle(seconds)

    def run_cell(self, cell: Locator, seconds: float = CELL_SECONDS) -> None:
        """Run one cell by Shift-Enter, and wait until nothing runs any more."""
        self.page.locator(PROMPTS).evaluate_all("all => all.forEach(e => { e.textContent = ''; })")
        cell.locator(".cm-content").first.click()
        self.page.keyboard.press("Shift+Enter")
        self.wait_until_idle(seconds)

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until some cell has run and none is running or waiting to; a run has `PAGE_SECONDS` to begin."""
        self.page.wait_for_function(
            "prompts => [...document.querySelectorAll(prompts)].some(e => /[*\\d]/.test(e.textContent))", arg=PROMPTS
        )
        self.page.wait_for_function(
            """prompts => {
                const texts = [...document.querySelectorAll(prompts)].map(e => e.textContent);
                return texts.some(t => /\\d/.test(t)) && !texts.some(t => t.includes('*'))
                    && document.querySelector('.jp-Notebook-ExecutionIndicator').dataset.status == 'idle';
            }""",
            arg=PROMPTS,
            timeout=seconds * 1000,
        )

    def replace_source(self, cell: Locator, source: str) -> None:
        """Select the cell's whole text and put `source` in its place, as pasting does: no automatic indents."""
        cell.locator(".cm-content").first.click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(source)

    def errors(self) -> list[str]:
        """Texts of all error outputs and of widgets that could not be shown."""
        broken = self.page.locator(
            "[data-mime-type='application/vnd.jupyter.error'], [data-mime-type='application/vnd.jupyter.stderr'], "
            ".jp-OutputArea-output:has-text('Error displaying widget'), "
            ".jp-OutputArea-output:has-text('model not found')"
        )
        return broken.all_text_contents()
