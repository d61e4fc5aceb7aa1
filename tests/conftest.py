"""Settings that every test shares."""

import functools
import gettext
import os

os.environ["ADDNORM_LANG"] = "en"

import pytest
import torch
from hypothesis import settings

from addnorm_lib import messages

settings.register_profile("addnorm", deadline=None, derandomize=True, database=None)
settings.load_profile("addnorm")


@pytest.fixture(autouse=True)
def _one_thread_and_a_fixed_seed():
    """One thread is several times faster than two at these sizes, and the numbers repeat."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


@functools.cache
def _template():
    from tools import strings

    return {message.id for message in strings.template()}


@pytest.fixture
def translatable(monkeypatch):
    """Record every string that a test looks up, and hold that the translators' template has it."""
    looked_up = set()

    class Recording(gettext.NullTranslations):
        def gettext(self, message):
            looked_up.add(message)
            return message

    monkeypatch.setattr(messages, "_catalogue", lambda language: Recording())
    yield looked_up
    assert looked_up <= _template()


def pytest_collection_modifyitems(items):
    """Start the longest tests first, so that two workers end together."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_terminal_summary(terminalreporter):
    """Say in one line what this machine lacked: the reasons of all skipped tests."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {r.longrepr[2].removeprefix("Skipped: ") for r in skipped if isinstance(r.longrepr, tuple)}
    if reasons:
        terminalreporter.write_line("left out: " + "; ".join(sorted(reasons)))


@pytest.fixture
def shown(monkeypatch, tmp_path):
    """Return a function that displays an object in a real IPython shell and returns the outputs' (data, metadata)."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    from IPython.core.history import HistoryManager
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import display
    from IPython.utils.capture import capture_output

    monkeypatch.setattr(HistoryManager, "enabled", False)
    InteractiveShell.clear_instance()
    InteractiveShell.instance()

    def show(thing):
        with capture_output() as captured:
            display(thing)
        return [(output.data, output.metadata) for output in captured.outputs]

    yield show
    InteractiveShell.clear_instance()
