"""Reader-facing strings in the reader's language: the standard library's gettext, English as the source.

Write `_("x has shape {shape}").format(shape=...)`, never an f-string inside `_`: the template is what translators see.
The language is `ADDNORM_LANG`, or else the locale's; a language without a catalogue falls back to English.
"""

import functools
import gettext
import os
from pathlib import Path

_LOCALE_DIR = Path(__file__).parent / "locale"


@functools.cache
def _catalogue(language: str) -> gettext.NullTranslations:
    languages = [language] if language else None
    return gettext.translation("addnorm_lib", localedir=_LOCALE_DIR, languages=languages, fallback=True)


def _(message: str) -> str:
    """Return `message` in the reader's language (looked up at every call: the language may change in a session)."""
    return _catalogue(os.environ.get("ADDNORM_LANG", "")).gettext(message)


def N_(message: str) -> str:
    """Mark a string for translation where it is written; `_` translates it where it is shown."""
    return message
