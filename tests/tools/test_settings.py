"""Settings are what they say: in a kernel started with their environment, and not only in a variable."""

import subprocess
import sys

import pytest

from tools import settings
from tools.settings import OWN, SHORTENED, Setting

SAYS = """if True:
    import torch
    from addnorm_lib.experiments.data import topics_text
    print(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads(), len(topics_text()))"""


def said(setting, tmp_path):
    environment = settings.os.environ | setting.environment(tmp_path / "records", tmp_path / "texts")
    run = subprocess.run([sys.executable, "-c", SAYS], env=environment, capture_output=True, text=True, check=True)
    instructions, threads, length = run.stdout.split()
    return instructions.lower(), int(threads), int(length)


def test_a_kernel_gets_the_instructions_threads_and_text_of_its_setting(tmp_path):
    best = settings.instruction_sets()[-1]
    own = said(Setting(), tmp_path)
    assert own[:2] == (best, 1)
    far = said(Setting("default", threads=2, text=SHORTENED), tmp_path)
    assert far[:2] == ("default", 2)
    assert 0.7 * own[2] < far[2] < own[2]
    assert settings.was_read(SHORTENED, tmp_path / "texts")


def test_other_pythons_texts_are_other_texts(tmp_path):
    others = [text for text in settings.texts() if text not in (OWN, SHORTENED)]
    if not others:
        pytest.skip("other Pythons' manuals: only one Python is installed")
    lengths = {text: said(Setting(text=text), tmp_path)[2] for text in [OWN, *others]}
    assert len(set(lengths.values())) == len(lengths)


def test_a_text_that_is_not_here_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"text: no Python 3\.99 is installed"):
        settings.shadow("3.99", tmp_path)
