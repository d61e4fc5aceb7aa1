# Everything that thinks stands in tools/bootstrap.py; here is only the search for a Python that can run it.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
RUN = $(or $(PYTHON),$(error addnorm needs Python 3.11 or newer, and none was found: install it, or name one, as in "make lab PYTHON=/path/to/python3.11"))

.DEFAULT_GOAL := help
.PHONY: help lab test notebooks lint badges bench
help lab test notebooks lint bench:
	@$(RUN) tools/bootstrap.py $@
badges:
	@$(RUN) tools/bootstrap.py badges $(REPO)
