# Every target makes the environment that it needs; nothing has to be installed by hand but Python 3.11 and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Other Pythons: those that are not there are named and left out. Give paths to use some that are elsewhere.
PYTHONS ?= python3.12 python3.13
BUILD_NEEDS := build==1.6.1 twine==7.0.0 cyclonedx-bom==7.5.0 pip-licenses==5.5.5
VERSIONS_NEED := pytest==9.2.0 pytest-xdist==3.8.0 hypothesis==6.170.15 pandas==3.1.1 polars==2.1.0
VERSIONS_TESTS := $(patsubst %,tests/unit/%.py,api/test_arguments beliefs/test_weighted_update native/test_native \
    cleaning/test_frames results/test_results)
TEST_VERSIONS := bin/pytest $(VERSIONS_TESTS) -m "not slow and not thorough and not spark"
# Patches of a version replace each other in the documentation.
VERSION = $(shell sed -n 's/^version = "\([0-9]*\.[0-9]*\).*/\1/p' pyproject.toml)
# All Pythons of pyenv answer to their names, where there is pyenv.
ALL_OF_PYENV = PYENV_VERSION=$$(pyenv versions --bare 2> /dev/null | paste -sd:)
# Or every program that a test starts would compile this source again.
unexport PYTHONDONTWRITEBYTECODE
# A file stays with one worker: its tests share compiled programs, which are most of the time. A worker that dies ends
# the run: by files, others wait for its tests for ever. Files keep their order, since the longest have few tests, and would
# run last and alone.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

.PHONY: demo test test-fleet check check-types check-tests check-all check-versions check-oldest test-spark fuzz reproduce bench docs
.PHONY: docs-release notebooks clean coverage check-arm dist check-dist sbom bench-history

demo: $(VENV)/demo.done  ## a robust filter against a Kalman filter on dirty data: a table and a picture
	$(BIN)/wolf demo

test: $(VENV)/dev.done  ## the quick tests of the library, with the snippets of README and the quick start: minutes
	$(PYTEST) -m "not slow and not thorough and not spark" tests src docs README.md

test-fleet: $(VENV)/dev.done  ## the quick tests of wolf-fleet: data sets, streams, service
	$(PYTEST) -m "not slow and not thorough and not spark" fleet

check: $(VENV)/dev.done  ## what CI runs: format, lint, types, all but the slow tests of library, fleet and paper
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --jobs=2 check-types check-tests

check-types: $(VENV)/dev.done  # it has work for one core only, so the tests begin beside it
	$(BIN)/mypy

check-tests: $(VENV)/dev.done
	$(PYTEST) -m "not slow and not spark"

check-all: $(VENV)/release.done  ## the slow tests too, all of them with the compiler that users have
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	XLA_FLAGS= $(PYTEST) -m "not spark"
	$(MAKE) check-versions

check-versions: check-oldest  ## core tests with other Pythons and the newest libraries
	@export $(ALL_OF_PYENV); for python in $(PYTHONS); do \
	    if ! $$python --version > /dev/null 2>&1; then echo "$$python is not installed: not tested"; continue; fi; \
	    venv=$(VENV)-$$(basename $$python); \
	    $$python -m venv $$venv && $$venv/bin/pip install --quiet ".[all]" $(VERSIONS_NEED) || exit 1; \
	    $$venv/$(TEST_VERSIONS) || exit 1; done

# Old libraries call what newer ones below them will leave out, so their warnings are none of ours.
check-oldest:  ## the same with the oldest libraries that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-oldest
	$(PYTHON) tests/oldest.py > $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/pip install --quiet ".[all]" $(VERSIONS_NEED) --constraint $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/$(TEST_VERSIONS) -W default

test-spark: $(VENV)/spark.done  ## the tests on Spark, with kills of its processes; needs Java 17, takes minutes
	$(BIN)/pytest -m spark fleet/tests/spark

coverage: $(VENV)/coverage.done  ## which lines and branches the quick tests go through
	$(PYTEST) -m "not slow and not thorough and not spark" --cov=wolf --cov-branch --cov-report=term:skip-covered --cov-report=json:$(VENV)/coverage.json

fuzz: $(VENV)/dev.done  ## 150,000 random models and series, over all filters with a Gaussian belief, and 34,000 commands and arguments
	WOLF_FUZZ=100000 $(BIN)/pytest tests/attack/test_fuzz.py tests/attack/test_input_fuzz.py

reproduce: $(VENV)/paper.done  ## the paper's experiments, small, with verdicts: minutes
	$(BIN)/wolf reproduce

bench: $(VENV)/bench.done  ## speed beside six libraries and C++ in one run, into docs/benchmarks.md: under ten minutes
	$(BIN)/python benchmarks/speed.py

bench-history: $(VENV)/asv.done  ## some of these figures for this commit, into benchmarks/asv/results
	cd benchmarks/asv && $(abspath $(BIN))/asv machine --yes && $(abspath $(BIN))/asv run "HEAD^!"

docs: $(VENV)/docs.done  ## the documentation as a site, in site/
	$(BIN)/mkdocs build --strict

docs-release: $(VENV)/docs.done  ## the documentation of this version beside those before it, on the branch gh-pages
	$(BIN)/mike deploy --update-aliases $(VERSION) latest
	$(BIN)/mike set-default latest

notebooks: $(VENV)/docs.done  ## the examples as notebooks, in notebooks/
	mkdir -p notebooks
	for each in $$(grep -l "^# %%" examples/*.py); do \
	    $(BIN)/jupytext --quiet --to ipynb $$each --output notebooks/$$(basename $$each .py).ipynb || exit 1; done

check-arm: $(VENV)/dev.done  ## bits and core tests on 64-bit ARM, emulated; needs root and Debian's qemu-user-static
	tools/check_arm.sh

dist:  ## wheels and source distributions of the committed files, in dist/
	rm -rf dist build/source && mkdir -p build/source
	git archive HEAD | tar -x -C build/source
	$(PYTHON) -m venv $(VENV)-build && $(VENV)-build/bin/pip install --quiet $(BUILD_NEEDS)
	for each in . fleet paper; do \
	    $(VENV)-build/bin/python -m build --outdir dist build/source/$$each || exit 1; done
	$(VENV)-build/bin/twine check --strict dist/*

check-dist: dist  ## the wheels in an empty environment: the demo, a file, the commands of all packages
	rm -rf $(VENV)-dist && $(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/pip install --quiet dist/*.whl matplotlib
	cd $(VENV)-dist && bin/wolf demo && bin/wolf reproduce --list && bin/wolf serve --help > serve.txt
	cd $(VENV)-dist && bin/wolf simulate --out small.csv && bin/wolf filter small.csv

sbom: check-dist  ## what the wheels bring with them, in sbom/: CycloneDX, and the licence of every package
	mkdir -p sbom
	$(VENV)-build/bin/cyclonedx-py environment $(VENV)-dist --output-reproducible --of JSON -o sbom/sbom.cdx.json
	$(VENV)-build/bin/pip-licenses --python $(VENV)-dist/bin/python --format markdown --with-urls \
	    --output-file sbom/licences.md

$(VENV)/bin/python:
	@echo "Making an environment in $(VENV) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/demo.done: pyproject.toml | $(VENV)/bin/python
	@echo "Installing wolf with its plotting extra (JAX is the large part, about 150 MB) ..."
	$(BIN)/python -m pip install --quiet -e ".[plot]"
	@touch $@

$(VENV)/paper.done: pyproject.toml paper/pyproject.toml | $(VENV)/bin/python
	@echo "Installing wolf with the paper's experiments ..."
	$(BIN)/python -m pip install --quiet -e . -e ./paper
	@touch $@

# What tests need has all that the demo and the paper need.
$(VENV)/dev.done: pyproject.toml paper/pyproject.toml fleet/pyproject.toml | $(VENV)/bin/python
	@echo "Installing wolf and the paper's experiments with what their tests need ..."
	$(BIN)/python -m pip install --quiet -e ".[all]" --group dev -e ./paper \
	    -e "./fleet[serve,nats,kafka]" --group fleet/pyproject.toml:test
	@touch $@ $(VENV)/demo.done $(VENV)/paper.done

$(VENV)/spark.done: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet -e "./fleet[spark]"
	@touch $@

$(VENV)/bench.done: $(VENV)/dev.done benchmarks/requirements.txt
	$(BIN)/python -m pip install --quiet -r benchmarks/requirements.txt
	@touch $@

$(VENV)/asv.done: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet asv==0.6.6 virtualenv
	@touch $@

$(VENV)/coverage.done: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet pytest-cov
	@touch $@

$(VENV)/docs.done: $(VENV)/dev.done docs/requirements.txt
	$(BIN)/python -m pip install --quiet -r docs/requirements.txt
	@touch $@

$(VENV)/release.done: $(VENV)/docs.done
	$(BIN)/python -m pip install --quiet py-rattler-build==0.73.0
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* site notebooks
