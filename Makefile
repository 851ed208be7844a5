PYTHON ?= python3
BIN := .venv/bin

# Each stamp stands for an installed set of packages; it is remade only when what it pins changes.
BASE := .venv/.base
DEV := .venv/.dev
DOCS := .venv/.docs

.PHONY: demo test soak check format bench docs clean

demo: $(BASE)
	$(BIN)/proxfl demo --out out/demo

test: $(DEV)
	$(BIN)/pytest -n 2

soak: $(DEV)
	$(BIN)/pytest -m soak tests/deploy

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pytest -q tests/test_imports.py

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)
	$(BIN)/python -m benchmarks.run

docs: $(DOCS)
	$(BIN)/mkdocs build --strict

$(BASE): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(DEV): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@ $(BASE)

$(DOCS): $(DEV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv out site
