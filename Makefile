# Two commands on a fresh machine: `make demo` and `make test`.
# Everything they need is installed into .venv; nothing else is touched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=
# One for what needs a control plane, which mostly waits, and one for all the rest.
WORKERS ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

.PHONY: setup
setup: $(STAMP) ## Make .venv with the vgpu command and all tools

$(STAMP): requirements/dev.txt pyproject.toml tools/setup
	@PYTHON="$(PYTHON)" tools/setup $(VENV)
	@touch $@

.PHONY: demo
demo: $(STAMP) ## Show the whole protocol on a local cluster, no GPU needed
	@$(BIN)/vgpu demo

.PHONY: test
test: verify ## Linters, types, import contracts, then all tests
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadscope --no-loadscope-reorder \
		$(PYTEST_ARGS)

.PHONY: verify
verify: $(STAMP) ## Everything that needs no running
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(BIN)/python tools/proto.py --check
	$(BIN)/python tools/generate_docs.py --check

.PHONY: docs
docs: $(STAMP) ## Write the generated parts of docs/ again
	$(BIN)/python tools/generate_docs.py

.PHONY: proto
proto: $(STAMP) ## Write the Python side of the kubelet's gRPC APIs again
	$(BIN)/python tools/proto.py

.PHONY: manifests
manifests: $(STAMP) ## Render manifests/ from the chart again (builds Helm once, with Go)
	PYTHONPATH=operator:tests $(BIN)/python tools/plain_manifests.py

.PHONY: site
site: $(STAMP) ## Build the documentation as a site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: format
format: $(STAMP) ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lock
lock: $(STAMP) ## Resolve the dependencies again
	tools/lock

.PHONY: audit
audit: $(STAMP) ## Look the locked dependencies up in the advisory database; check the lock itself without it
	$(BIN)/python tools/audit.py

.PHONY: sbom
sbom: $(STAMP) ## Write the bill of materials to dist/sbom.cdx.json (CycloneDX)
	$(BIN)/python tools/sbom.py dist/sbom.cdx.json

SEEDS ?= 2000
SEED ?=
JOBS ?= $(shell nproc)

.PHONY: simulate
simulate: $(STAMP) ## Let SEEDS=100000 histories happen, JOBS side by side; SEED=7 tells one
	PYTHONPATH=operator:tests $(BIN)/python -m simulation \
		$(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --jobs $(JOBS))

.PHONY: simulate-mutants
simulate-mutants: $(STAMP) ## Look for a history that finds each deliberate defect
	PYTHONPATH=operator:tests $(BIN)/python -m simulation --mutants --seeds $(SEEDS) --jobs $(JOBS)

RUNS ?= 50
MINUTES ?= 60
REPORT := build/reliability.json

.PHONY: faults
faults: $(STAMP) ## Kill, freeze and cut off every real component in a burst; RUNS=50 fail-overs
	VGPU_FAULTS=all VGPU_FAILOVERS=$(RUNS) VGPU_RELIABILITY_REPORT=$(REPORT) \
		$(BIN)/python -m pytest tests/apiserver/test_real_faults.py
	@cat $(REPORT)

.PHONY: soak
soak: $(STAMP) ## Churn for MINUTES=60; fails when memory, tasks, connections or latency grow
	VGPU_SOAK_MINUTES=$(MINUTES) VGPU_RELIABILITY_REPORT=$(REPORT) \
		$(BIN)/python -m pytest tests/apiserver/test_soak.py
	@cat $(REPORT)

.PHONY: bench
bench: $(STAMP) ## Measure everything that is promised of speed; QUICK=1 for 3 minutes
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/bench.txt
	PYTHONPATH=.:tests $(BIN)/python -m bench

SECONDS ?= 600
.PHONY: fuzz
fuzz: $(STAMP) ## Fuzz every reader and every body for SECONDS=600; what breaks one is kept
	VGPU_FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest tests/fuzz -q

.PHONY: fuzz-guided
fuzz-guided: $(STAMP) ## Fuzz one reader by coverage (Linux): TARGET=register SECONDS=600
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/fuzz.txt
	@mkdir -p $(VENV)/fuzz/$(TARGET)
	PYTHONPATH=operator:tests $(BIN)/python tests/fuzz/guided.py $(TARGET) -max_total_time=$(SECONDS) \
		-artifact_prefix=$(VENV)/fuzz/ $(VENV)/fuzz/$(TARGET) tests/fuzz/corpus/$(TARGET)

.PHONY: screenshots
screenshots: $(STAMP) ## Take the state page's pictures in docs/images again (needs Chromium)
	PYTHONPATH=operator:tests $(BIN)/python tools/screenshots.py

.PHONY: wheel
wheel: $(STAMP) ## Build the wheel into dist/
	$(BIN)/python -m hatchling build -t wheel

.PHONY: krew
krew: wheel ## Krew's archive and manifest in build/krew (URI=... HOMEPAGE=...)
	$(BIN)/python tools/krew.py dist/vgpu_operator-*.whl --uri "$(URI)" --homepage "$(HOMEPAGE)"

.PHONY: clean
clean: ## Remove .venv and everything that was built here
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
