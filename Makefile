# Everything runs in a virtual environment of its own, .venv; `make demo` and `make test` set it up if need be.
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
CORES ?= $(shell $(PYTHON) -c "import os; print(os.cpu_count())")
SNAKEMAKE := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakemake
DEMO := --configfile config/demo.yaml --cores $(CORES)

.PHONY: help setup demo report test test-slow lint format clean
help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .venv/.done ## Make the virtual environment

# torch first and alone, so that no other package's requirement chooses another build of it.
.venv/.done: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' requirements.lock)"
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

demo: setup ## Run the whole grid in miniature, without a download (about 8 minutes on 2 cores)
	$(SNAKEMAKE) $(DEMO)
	@$(MAKE) --no-print-directory report
	@echo; cat results/demo/tables/f1.md; echo
	@echo "Tables:  results/demo/tables/"
	@echo "Figures: results/demo/figures/"
	@echo "Report:  results/demo/report.html"

report: setup ## Make the HTML report of the demo
	$(SNAKEMAKE) $(DEMO) --quiet all --report results/demo/report.html

test: setup ## Run the tests
	$(BIN)/python -m pytest

test-slow: setup ## Run the heavy proofs too
	$(BIN)/python -m pytest -m "slow or not slow"

lint: setup ## Check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check workflow

format: setup ## Mend format and style where that can be done by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt workflow

clean: ## Remove everything produced by the demo, and caches
	rm -rf results/demo .pytest_cache .ruff_cache .hypothesis
