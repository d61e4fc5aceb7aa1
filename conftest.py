"""What `pytest --nbval notebooks/` needs to know, from whichever folder it is started: no options, no settings.

Tests' own settings stand in tests/conftest.py.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent


def pytest_configure(config):
    """Compare notebooks with this interpreter's kernel, and mask the measured numbers of claims."""
    given = config.option
    if getattr(given, "nbval", False) or getattr(given, "nbval_lax", False):
        given.nbval_current_env = given.nbval_current_env or not given.nbval_kernel_name
        given.nbval_sanitize_with = given.nbval_sanitize_with or str(ROOT / "tools" / "nbval.cfg")
