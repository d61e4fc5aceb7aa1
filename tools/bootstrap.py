"""Behind the Makefile: make the project's environments, then run a command in them. Standard library only.

An environment carries a marker file that says what was installed and whether it was finished: an unfinished one is
made again from nothing, a finished one is left alone until pyproject.toml or a file of pins changes.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
COLAB_VENV = ROOT / ".venv-colab"
COLAB_PINS = ROOT / "tools" / "colab-2026-08.txt"
MARKER = "addnorm.json"
READER = ("notebooks",)
EVERYTHING = ("notebooks", "triton", "test", "cluster")

NO_SPACE = ("No space left on device", "Errno 28")
NO_NETWORK = (
    "Failed to establish a new connection",
    "NewConnectionError",
    "NameResolutionError",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "ConnectTimeoutError",
    "Read timed out",
    "Connection refused",
    "(from versions: none)",
)


class SetupError(Exception):
    """What is missing on this machine, in one line, with what to do about it."""


def python_of(venv):
    """Path of the environment's interpreter."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def digest(*files):
    """Hash of the files' contents."""
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


def read_marker(venv):
    """What the environment's marker says; empty where there is none."""
    try:
        return json.loads((venv / MARKER).read_text())
    except (OSError, ValueError):
        return {}


def write_marker(venv, **said):
    """Write the marker in one step, so that it is never half there."""
    draft = venv / (MARKER + ".new")
    draft.write_text(json.dumps({"root": str(ROOT), **said}))
    draft.replace(venv / MARKER)


def explain(pip_said):
    """One line for what stopped pip, from what it printed."""
    if any(sign in pip_said for sign in NO_SPACE):
        return "the disk is full: free some space (about 4 GB are needed) and run the same command again"
    if any(sign in pip_said for sign in NO_NETWORK):
        return "the package index cannot be reached: connect to a network and run the same command again"
    return "pip could not install the pinned packages: its last lines stand above"


def pip(venv, *arguments):
    """Run pip in the environment: one changing line on a terminal, its last lines when it fails."""
    command = [str(python_of(venv)), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    seen = []
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            for line in process.stdout:
                seen.append(line)
                if sys.stdout.isatty():
                    width = shutil.get_terminal_size().columns - 1
                    print("\r" + line.strip()[:width].ljust(width), end="", flush=True)
        except BaseException:
            process.terminate()
            raise
    if sys.stdout.isatty():
        print("\r" + " " * (shutil.get_terminal_size().columns - 1), end="\r")
    if process.returncode:
        print("".join(seen[-8:]), end="", file=sys.stderr)
        raise SetupError(explain("".join(seen)))


def create(venv, gigabytes):
    """Make an empty environment in place of whatever unfinished one stands there; it will grow to `gigabytes`."""
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        raise SetupError(
            f"{sys.executable} cannot make virtual environments: "
            "install the package python3-venv (Debian and Ubuntu: sudo apt install python3-venv)"
        )
    shutil.rmtree(venv, ignore_errors=True)
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < gigabytes:
        raise SetupError(f"the disk has {free:.1f} GB free, and {venv.name} needs {gigabytes} GB: free some space")
    try:
        venv.mkdir()
        write_marker(venv, done=False)
        made = subprocess.run(
            [sys.executable, "-m", "venv", str(venv)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except OSError as error:
        raise SetupError(f"{venv} cannot be written: {error.strerror}") from None
    if made.returncode:
        raise SetupError(f"{venv.name} could not be made: {made.stdout.strip().splitlines()[-1]}")


def works(venv):
    """Whether the environment's interpreter starts and is new enough."""
    code = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([str(python_of(venv)), "-c", code], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def ensure(venv, key, parts, gigabytes, install):
    """Bring the environment to `key` with at least `parts` in it; `install(parts)` does what is due."""
    marker = read_marker(venv)
    sound = works(venv) and (not marker or (marker["done"] and marker["root"] == str(ROOT)))
    if sound and marker.get("key") == key and set(parts) <= set(marker["parts"]):
        return
    started = time.monotonic()
    print(f"Setting up {venv.name}, once; this takes some minutes.", flush=True)
    # An environment without a marker was made by hand: it is completed in place, and never deleted.
    if not sound and venv.exists() and not marker:
        raise SetupError(f"{venv} was not made by this command and has no Python 3.11 or newer: move it away")
    if not sound:
        create(venv, gigabytes)
    elif marker:
        write_marker(venv, done=False)
    parts = sorted({*parts, *marker.get("parts", ())})
    install(parts)
    # Matplotlib lists the machine's fonts once, and warns into the first plot when that takes long.
    subprocess.run([str(python_of(venv)), "-c", "import matplotlib.font_manager"], stderr=subprocess.DEVNULL)
    write_marker(venv, done=True, key=key, parts=parts)
    print(f"{venv.name} is ready after {time.monotonic() - started:.0f} s.", flush=True)


def ensure_venv(extras):
    """Bring the project's own environment, `.venv`, up to date, with at least these extras."""
    pins = ROOT / "constraints.txt"
    ensure(
        VENV,
        digest(ROOT / "pyproject.toml", pins),
        extras,
        3.5,
        lambda parts: pip(VENV, "install", "-c", str(pins), "-e", f"{ROOT}[{','.join(parts)}]"),
    )


def ensure_colab():
    """Bring `.venv-colab` up to date: Colab's versions, without our package; torch is .venv's own, linked."""

    def install(_parts):
        for name in ("torch", "torchgen", "functorch"):
            link = site_packages(COLAB_VENV) / name
            if not link.is_symlink():
                link.symlink_to(site_packages(VENV) / name)
        pip(COLAB_VENV, "install", "--no-deps", "-r", str(COLAB_PINS))

    ensure(COLAB_VENV, digest(COLAB_PINS), (), 1, install)


def site_packages(venv):
    """Path of the environment's folder of packages."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.run([str(python_of(venv)), "-c", code], capture_output=True, text=True).stdout.strip())


def become(*arguments, **environment):
    """Hand over to the environment's Python; with exec, so that Ctrl-C and the exit status need no go-between."""
    os.chdir(ROOT)
    os.environ.update(environment)
    command = [str(python_of(VENV)), *arguments]
    if os.name == "nt":
        sys.exit(subprocess.call(command))
    os.execv(command[0], command)


def lab():
    """Open JupyterLab on the notebooks."""
    ensure_venv(READER)
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    become("-m", "jupyterlab", *as_root, "notebooks")


def test():
    """Prove everything: lint, unit tests, every notebook unsolved and solved, Colab's versions, a real browser."""
    ensure_venv(EVERYTHING)
    try:
        ensure_colab()
    except SetupError as error:
        # The tests that need it say so; where ADDNORM_REQUIRE names it, they fail.
        print(f"left out: Colab's version set ({error})", file=sys.stderr)
    # Two at a time and one at a time handed out, for the longest tests come first.
    become("-m", "pytest", "-n", "2", "--maxschedchunk", "1", "--durations=8", OMP_NUM_THREADS="1")


def notebooks():
    """Run every notebook again in place and strip what must not be stored."""
    ensure_venv(EVERYTHING)
    become("-m", "tools.notebooks", "refresh")


def lint():
    """Check style, import floors and notebooks."""
    ensure_venv(EVERYTHING)
    become("-m", "pytest", "tests/test_lint.py")


def badges(repository):
    """Write the repository's address into pyproject.toml, README.md and the notebooks."""
    ensure_venv(EVERYTHING)
    become("-m", "tools.notebooks", "badges", repository)


def bench():
    """Compare the fused core with its peers."""
    ensure_venv(EVERYTHING)
    become("-m", "addnorm_lib.microscope.bench")


COMMANDS = {f.__name__: f for f in (lab, test, notebooks, lint, badges, bench)}


def main(arguments):
    """Run one command; a machine that lacks something gets one line, not a traceback."""
    if sys.version_info < (3, 11):
        return f"addnorm needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}."
    name, *rest = arguments or ["help"]
    if name not in COMMANDS:
        for command in COMMANDS.values():
            usage = command.__name__ + (" REPO=owner/name" if command is badges else "")
            print(f"make {usage:<24} {command.__doc__}")
        return 0 if name == "help" else f"{name}: there is no such command."
    if len(rest) != (name == "badges"):
        return "say which repository: make badges REPO=owner/name" if name == "badges" else f"{name} takes no arguments"
    try:
        COMMANDS[name](*rest)
    except SetupError as error:
        return f"addnorm: {error}"
    except KeyboardInterrupt:
        return "addnorm: interrupted; the same command starts over cleanly"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
