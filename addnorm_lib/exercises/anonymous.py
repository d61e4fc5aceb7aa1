"""The blocks that chapter 4's notebook imports from here."""

from addnorm_lib.chapters.ch04_postln_vs_preln.blocks import anonymous_blocks as anonymous_blocks
