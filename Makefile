# Everything runs in a virtual environment of its own, .venv; `make demo` and `make test` set it up if need be.
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
CORES ?= $(shell $(PYTHON) -c "import os; print(os.cpu_count())")
SEARCH := PATH="$(CURDIR)/$(BIN):$$PATH"
SNAKEMAKE := $(SEARCH) $(BIN)/snakemake
# make demo STUDY=<name> runs demo_<name>.yaml, of config or of a study; without STUDY, config/demo.yaml.
STUDY_FILE := $(if $(STUDY),$(firstword $(wildcard config/demo_$(STUDY).yaml studies/*/demo_$(STUDY).yaml) config/demo_$(STUDY).yaml),config/demo.yaml)
# make report CONFIG=<file> is of any study.
REPORTED := $(or $(CONFIG),$(STUDY_FILE))
# The folder of the study's results, asked when a command needs it.
RESULTS = $(shell $(BIN)/python -c "import sys; from lib.core.program import run; \
	from lib.study.configuration import load_study, read_layers; \
	sys.exit(run(lambda files: print(load_study(read_layers(files)).execution.results), sys.argv[1:]))" $(REPORTED))
# The study that is asked about: make status CONFIG=<file>, or STUDY=<name> for a demo; without either, the full grid.
ASKED := --configfile $(or $(CONFIG),$(if $(STUDY),$(STUDY_FILE),config/config.yaml))
# Without the workflow's own profile, which prints every command: one line per job is enough here.
PLAIN := --cores $(CORES) --workflow-profile none --rerun-incomplete --show-failed-logs
DEMO := --configfile $(STUDY_FILE) $(PLAIN)

# What asks about results needs an environment, and never brings one up to date: results know their versions.
THERE := $(if $(wildcard .venv/.done),,setup)

.PHONY: help setup demo demo-full report why accept status verify archive mechanism docs bench bench-page bench-gpu test test-all test-extended test-skipped test-rows \
	test-studies test-slurm test-gpu test-slow lint format clean
help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .venv/.done ## Make the virtual environment, without the extras of some studies

# torch first and alone, so that no other package's requirement chooses another build of it.
.venv/.done: requirements.lock pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(None if sys.version_info >= (3, 11, 2) else '$(PYTHON) is Python ' + \
		sys.version.split()[0] + ', but 3.11.2 or newer is needed. Name one: make setup PYTHON=<its path>')"
	@echo "Setting up .venv: a few minutes, once."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' requirements.lock)"
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

demo: setup ## Run the whole grid in miniature, or with STUDY=<name> another study, without a download
	@results=$(RESULTS); test -n "$$results" && mkdir -p $$results || exit 1; log=$$results/snakemake.log; echo "Log: $$log"; \
		$(BIN)/python scripts/tools/status.py --configfile $(STUDY_FILE) --follow $$log & view=$$!; \
		$(SNAKEMAKE) $(DEMO) --quiet reason host > $$log 2>&1; status=$$?; kill $$view; wait $$view 2> /dev/null; \
		test $$status = 0 || awk '/Error|Exception/ {found = 1} found' $$log >&2; exit $$status
	@$(MAKE) --no-print-directory report
	@results=$(RESULTS); for table in $$results/tables/$$(test -e $$results/tables/f1.md && echo f1 || echo '*').md; \
		do echo; cat $$table; done; echo; \
		echo "Tables:  $$results/tables/"; echo "Figures: $$results/figures/"; echo "Report:  $$results/report.html"

demo-full: demo ## The same with what needs further runs: a search, a second seed, a hybrid, the mask of LSH
	@$(MAKE) --no-print-directory demo STUDY=full

# If it is killed, half a report has another name.
report: setup ## Make the HTML report of a finished study: CONFIG=<file>, or STUDY=<name> for a demo
	@results=$(RESULTS); test -n "$$results" || exit 1; log=$$results/.report.log; mkdir -p $$results; \
		$(SNAKEMAKE) --configfile $(REPORTED) $(PLAIN) --report $$results/.report.html > $$log 2>&1 || { cat $$log >&2; exit 1; }; \
		mv $$results/.report.html $$results/report.html && echo "Report: $$results/report.html"

why: $(THERE) ## Say what is stale and because of what: TARGET=<file or rule>, all without it
	@$(SEARCH) $(BIN)/python scripts/tools/why.py $(TARGET) $(ASKED) || test $$? = 1

accept: $(THERE) ## Take a stale TARGET as it is, without making it again: REASON="why it is harmless"
	@test -n "$(TARGET)" || { echo "Which results? make accept TARGET=<file or rule>"; exit 2; }
	@$(SEARCH) $(BIN)/python scripts/tools/accept.py $(TARGET) $(ASKED) $(if $(REASON),--reason "$$REASON")

status: $(THERE) ## Show how far a study is: runs done, running and failed, hours spent and left
	@$(BIN)/python scripts/tools/status.py $(ASKED) || test $$? = 1

verify: $(THERE) ## Compare finished results with their records and the plan: files, inputs, settings, code
	@$(BIN)/python scripts/tools/verify.py $(ASKED)

archive: $(THERE) ## Pack a finished study as data into one FILE=<name>.tar.gz: no models, no texts
	@test -n "$(FILE)" || { echo "Into which file? make archive FILE=study.tar.gz"; exit 2; }
	@$(BIN)/python scripts/tools/archive.py $(ASKED) --out $(FILE)

mechanism: $(THERE) ## Write the two files of a new mechanism: NAME=<kind>, into the extension FOLDER=mine
	@test -n "$(NAME)" || { echo "Which mechanism? make mechanism NAME=foo"; exit 2; }
	@$(BIN)/python -m attention_grid new $(NAME) --folder $(or $(FOLDER),mine)

# What tests and lint need, the extras of every study included.
.venv/.all: requirements-all.lock .venv/.done
	$(BIN)/python -m pip install --quiet --requirement requirements-all.lock
	touch $@

.venv/.bench: requirements-bench.lock .venv/.done
	$(BIN)/python -m pip install --quiet --requirement requirements-bench.lock
	touch $@

.venv/.kernels: requirements-kernels.lock .venv/.done
	$(BIN)/python -m pip install --quiet --requirement requirements-kernels.lock
	touch $@

.venv/.docs: requirements-docs.lock .venv/.all
	$(BIN)/python -m pip install --quiet --requirement requirements-docs.lock
	touch $@

# The pages as they stand here, by links, so that no text has a copy; a broken link or anchor is an error.
docs: .venv/.docs ## Make the site of the documentation in site/html
	mkdir -p site/source
	ln -sfn $(addprefix ../../,README.md CONTRIBUTING.md CHANGELOG.md CITATION.cff LICENSE benchmarks docs config studies) site/source/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Site: site/html. With its search: python -m http.server --directory site/html"

bench: setup .venv/.bench ## Measure what attention costs here, compared with other implementations (30 minutes on 2 cores)
	$(SNAKEMAKE) bench --cores $(CORES) --workflow-profile none --rerun-incomplete --show-failed-logs --quiet reason host
	@echo; cat results/tables/attention_cost.md; echo
	@echo "Tables:  results/tables/attention_cost.csv, training_cost.csv, encoder_cost.csv, favor_error.csv, lsh_recall.csv"
	@echo "Figures: results/figures/attention_time.png, attention_memory.png, favor_error.png, lsh_recall.png"

bench-page: bench ## The same, and put its tables and its figure into benchmarks/
	$(BIN)/python benchmarks/cost_page.py --page benchmarks/attention_cost.md --summaries results/tables/{attention,training,encoder}_cost.md \
		--without 'With padding' 'Forward pass'
	cp results/figures/attention_time.svg benchmarks/

# With the python3 that is there, since a GPU's machine often has a torch of its own, and no network.
GPU := PYTHONPATH="$(CURDIR)" $(PYTHON)
bench-gpu: ## Measure on a GPU: attention, training, the hours of the grid (no .venv, no network)
	$(GPU) -c "import sys, torch; sys.exit(None if torch.cuda.is_available() else 'torch sees no GPU here: make bench')"
	$(GPU) benchmarks/attention_cost.py --device cuda --out results/tables/attention_cost_gpu.csv
	$(GPU) benchmarks/training_cost.py --device cuda --out results/tables/training_cost_gpu.csv
	$(GPU) benchmarks/grid_hours.py --device cuda --out results/tables/grid_hours.csv

# One thread per process: small tensors gain nothing from more, and the tests run side by side. In the order of
# conftest.py, since xdist would begin with the files that have most tests, and end with those that take minutes.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
SIDE_BY_SIDE := -n $(CORES) --dist loadscope --no-loadscope-reorder
OTHERS := not study and not slow and not slurm and not gpu

test: setup ## Run the tests of what decides numbers, and of every command (4 minutes on 2 quiet cores)
	$(PYTEST) $(SIDE_BY_SIDE)

test-all: test test-extended ## Run all others as well (15 minutes more)

test-extended: .venv/.all
	$(PYTEST) -m 'extended and $(OTHERS)' $(SIDE_BY_SIDE)

test-skipped: .venv/.all ## Run the tests that the last run skipped, once you have installed the missing packages
	$(PYTEST) --last-skipped -m '$(OTHERS)' $(SIDE_BY_SIDE)

test-rows: .venv/.all ## Predict with every model that the demos left, and compare with its record (2 minutes)
	$(PYTEST) -m extended tests/workflow/test_rows_of_demos.py

test-studies: .venv/.all ## Run whole studies from their texts to their tables (about 20 minutes on 2 cores)
	$(PYTEST) -m study $(SIDE_BY_SIDE)

# By itself: it waits for Slurm more than it computes.
test-slurm: .venv/.all ## Run the workflow on a Slurm of two nodes on this machine (9 minutes on 2 busy cores)
	$(PYTEST) -m slurm

test-gpu: ## Run the tests of a GPU, with the python3 that is there
	$(GPU) -m pytest tests/gpu -m gpu

test-slow: .venv/.all ## Run the heavy proofs, and break the code to see whether the tests notice (an hour on 2 cores)
	$(PYTEST) -m slow
	$(BIN)/python tests/mutants.py

lint: .venv/.all ## Check format, style, types and the budget of lines
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/snakefmt --check workflow studies benchmarks
	$(BIN)/mypy
	$(BIN)/python tests/helpers/budget.py
	$(BIN)/python scripts/tools/lint_workflow.py --configfile config/demo.yaml

format: .venv/.all ## Fix format and style where that can be done automatically
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/snakefmt workflow studies benchmarks

clean: ## Remove everything produced by the demos, and caches
	rm -rf $(foreach file,$(wildcard config/demo*.yaml studies/*/demo_*.yaml),results/$(basename $(notdir $(file)))) site .mypy_cache .pytest_cache .ruff_cache .hypothesis
