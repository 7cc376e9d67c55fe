# Every target sets up what it needs: a virtual environment in .venv, once, and again when pyproject.toml changes.
#
#   make demo        the demo on real data           make lint types   ruff, mypy
#   make test        the fast tests (< 10 min)       make examples     every example, quickly
#   make test-slow   compiled engines, statistics    make docs         docs/lectures.md from the docstrings
#   make gallery     every lecture picture into gallery/, with one page; quickly: make gallery ARGS=--quick
#
# Another torch build: make TORCH=torch==2.13.0 test        Another Python: make PYTHON=python3.12 VENV=.venv312 test

PYTHON ?= python3
TORCH ?= torch
VENV ?= .venv
# Two processes use both cores of a small machine better than two threads of tiny tensors do.
PROCESSES ?= 2
TESTS ?= tests

BIN := $(VENV)/bin
READY := $(VENV)/.ready-$(shell printf '%s' '$(TORCH)' | tr -c 'A-Za-z0-9.' _)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(PROCESSES) $(TESTS)

.PHONY: help setup demo test test-slow lint types examples gallery docs clean
help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

setup: $(READY)

$(READY): pyproject.toml
	@echo "setting up $(VENV), once: minutes where torch is downloaded (several GB of CUDA libraries on Linux)"
	@# Where one was ended half-way it has a Python and no pip.
	$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	rm -f $(VENV)/.ready-*
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@# The first import of a day writes a stamp file, and two processes at once trip over it.
	$(BIN)/python -W ignore -c 'import arviz'
	touch $@

demo: $(READY)
	$(BIN)/python examples/demo.py $(ARGS)

test: $(READY)
	@$(BIN)/python -W ignore -c 'import arviz'
	$(PYTEST)

test-slow: $(READY)
	@$(BIN)/python -W ignore -c 'import arviz'
	$(PYTEST) -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

examples: $(READY)
	@# As many at once as tests; each one's words in one piece.
	ls examples/*.py | OMP_NUM_THREADS=1 xargs -P $(PROCESSES) -I{} sh -c 'out=$$($(BIN)/python {} --quick 2>&1); \
	    code=$$?; printf "== %s --quick\n%s\n" {} "$$out"; exit $$code'

gallery: $(READY)
	$(BIN)/python docs/gallery.py $(ARGS)

docs: $(READY)
	$(BIN)/python docs/make_lectures.py

clean:
	rm -rf $(VENV) build dist demo gallery .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
