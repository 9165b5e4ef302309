# make demo: set up .venv and run the main job. make test: set up and run every check.
# make bench: measure against the field (about half an hour), write docs/bench.md and docs/bench-polybench.md.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.weft-ready

.PHONY: demo test lint bench clean

demo: $(STAMP)
	$(RUN) -m weft demo

test: lint
	$(RUN) -m pytest -n 2 tests

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(STAMP)
	$(RUN) -m weft bench --install --write
	$(RUN) -m bench.polybench --write

$(STAMP): pyproject.toml
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .bench .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
