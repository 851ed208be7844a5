PYTHON ?= python3
BIN := .venv/bin

# Each stamp stands for an installed set of packages; it is remade only when what it pins changes.
BASE := .venv/.base
DEV := .venv/.dev
DOCS := .venv/.docs
BENCH := .venv/.bench

.PHONY: demo test soak check format bench bench-gpu docs pages clean

demo: $(BASE)
	$(BIN)/proxfl demo --out out/demo

test: $(DEV)
	$(BIN)/pytest -n 2 --dist worksteal

soak: $(DEV)
	$(BIN)/pytest -m soak

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pytest -q tests/test_imports.py tests/test_owners.py

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# On an idle machine; `rounds` reads results/compare/, which `proxfl compare` makes.
bench: $(BENCH)
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.deploy
	$(BIN)/python -m benchmarks.show

# Where JAX sees a GPU, in an environment that has JAX and PyTorch for it.
bench-gpu:
	$(PYTHON) -m benchmarks.run cnn sweeps million

docs: $(DOCS)
	$(BIN)/mkdocs build --strict

# What scripts write into docs/, to be committed; the sample's picture needs Chromium.
pages: $(DEV)
	$(BIN)/python docs/tools/cli_page.py
	$(BIN)/python docs/tools/draw_algorithm.py
	$(BIN)/python docs/tools/gallery.py
	$(BIN)/python docs/tools/sample.py
	$(BIN)/python docs/tools/walk.py

$(BASE): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(DEV): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@ $(BASE)

$(BENCH): $(DEV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[bench]"
	# A peer that asks for an older dp-accounting than ours; no privacy is benchmarked.
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps pfl prv-accountant multiprocess dill
	touch $@

$(DOCS): $(DEV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv out site
