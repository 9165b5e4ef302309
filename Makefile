# make demo: set up .venv and run the main job. make test: set up and run every check.
# make soak SECONDS=600: the random tests with fresh seeds for so long; each failure is told with a command to repeat it.
# make bench: measure against the field (about half an hour), write docs/bench.md and docs/bench-polybench.md.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.weft-ready

SECONDS ?= 600

# Compiled once, Python is read from files by the many processes that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check lint soak bench clean

demo: $(STAMP)
	$(RUN) -m weft demo

# mypy needs one core for half a minute: it runs beside the tests.
test: $(STAMP)
	$(MAKE) --no-print-directory -j 2 lint check

check: $(STAMP)
	$(RUN) -m pytest -n 2 --dist worksteal tests

soak: $(STAMP)
	$(RUN) tests/soak.py --seconds $(SECONDS)

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
	rm -rf $(VENV) .bench .soak .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
