PYTHON ?= python3
BIN := .venv/bin

# Each stamp stands for an installed set of packages; it is remade only when what it pins changes.
BASE := .venv/.base
DEV := .venv/.dev
DOCS := .venv/.docs
BENCH := .venv/.bench
RELEASE := .venv/.release
TORCH := .venv/.torch

# Modules are compiled once, not in each process of each run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test soak torch check format bench bench-gpu docs pages build audit lock clean

demo: $(BASE)
	$(BIN)/proxfl demo --out out/demo

test: $(DEV)
	$(BIN)/pytest -n 2 --dist worksteal

soak: $(DEV)
	$(BIN)/pytest -m soak

# PyTorch's build for CPUs; where it is not installed, the tests that need it are left out.
torch: $(TORCH)

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pytest -q tests/test_imports.py tests/test_owners.py

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# On an idle machine.
bench: $(BENCH)
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.deploy
	$(BIN)/python -m benchmarks.gate
	$(BIN)/python -m benchmarks.show

# Where JAX sees a GPU, in an environment that has JAX and PyTorch for it.
bench-gpu:
	$(PYTHON) -m benchmarks.run cnn cnn_variants torch_loss sweeps million

docs: $(DOCS)
	$(BIN)/mkdocs build --strict

# What scripts write into docs/, to be committed; the sample's picture needs Chromium.
pages: $(DEV)
	$(BIN)/python docs/tools/case_study.py
	$(BIN)/python docs/tools/cli_page.py
	$(BIN)/python docs/tools/draw_algorithm.py
	$(BIN)/python docs/tools/gallery.py
	$(BIN)/python docs/tools/sample.py
	$(BIN)/python docs/tools/walk.py

# A wheel, its bill of materials, and a demo by that wheel in an empty environment.
build: $(RELEASE)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m release.materials
	$(BIN)/python -m release.try_wheel

# Known vulnerabilities of all that is locked; asks the outside for advisories.
audit: $(RELEASE)
	$(BIN)/python -m release.audit

# Locks anew what pyproject.toml asks for; versions stay, unless LOCK_OPTIONS=--upgrade.
lock: $(RELEASE)
	$(BIN)/python -m release.lock $(LOCK_OPTIONS)

# A lock has all that is installed, with its hashes: nothing is left to resolve. The project itself is put beside it.
INSTALL = $(BIN)/pip install --quiet --no-deps --require-hashes --requirement
HERE = $(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .

$(BASE): pyproject.toml requirements/base.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) requirements/base.txt
	$(HERE)
	touch $@

$(DEV): pyproject.toml requirements/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) requirements/dev.txt
	$(HERE)
	touch $@ $(BASE)

$(DOCS): $(DEV) requirements/docs.txt
	$(INSTALL) requirements/docs.txt
	touch $@

$(RELEASE): $(DEV) requirements/release.txt
	$(INSTALL) requirements/release.txt
	touch $@

$(TORCH): $(DEV) requirements/torch.txt
	$(INSTALL) requirements/torch.txt
	touch $@

$(BENCH): $(DEV) requirements/bench.txt
	$(BIN)/pip install --quiet --constraint requirements/bench.txt --editable ".[bench]"
	# A peer that asks for an older dp-accounting than ours; no privacy is benchmarked.
	$(BIN)/pip install --quiet --constraint requirements/bench.txt --no-deps pfl prv-accountant multiprocess dill
	touch $@

clean:
	rm -rf .venv out site
