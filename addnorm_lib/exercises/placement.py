"""The stacks that chapter 4's notebook imports from here."""

from addnorm_lib.chapters.ch04_postln_vs_preln.stack_loss import stack_loss as stack_loss
