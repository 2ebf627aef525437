# Divan: the targets for development. `make help` lists them.

# Another build command, for example one that waits for other builds: make BUILD=...
BUILD ?= swift build -c release
PYTHON ?= python3
VENV := .venv-tests
FORMATTED := Package.swift $(wildcard Sources Tests Fuzzing cluster benchmarks)

.DEFAULT_GOAL := help
.PHONY: help deps deps-report house-report build install demo stop test build-tests clients sanitize fuzz campaign lint format \
	benchmark targets clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## Install every system package (deps/debian.txt lists them, with reasons)
	@deps/install

deps-report: ## Fail if the last build used other Swift packages than deps/packages.txt lists
	@deps/report

build: ## Build everything in release
	@deps/install build
	$(BUILD)

install: ## Install a node, its manual page and its service (PREFIX=/usr/local, DESTDIR=; docs/deploy/README.md)
	@deps/install build install
	$(BUILD) --product divan-server
	$(BUILD) --product divan-script
	$(BUILD) --product divan-gateway
	@BUILD="$(BUILD)" PREFIX="$(PREFIX)" docs/deploy/install "$(DESTDIR)"

demo: ## Start a cluster with a bucket of real documents, run a load test, leave it running
	@deps/install build demo
	$(BUILD)
	@cluster/demo

stop: ## Stop the running cluster
	@cluster/stop

house-report: ## Print the figures of the structure of Sources (COMMIT=...: those of a commit)
	@Tests/house-report $(COMMIT)

test: ## Run all tests: format, unit, process and client tests, the page in a browser
	@deps/install build install demo test
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory build-tests
	@Tests/unit
	@$(MAKE) --no-print-directory clients

build-tests: ## Build everything and the Swift tests in release
	$(BUILD) --build-tests

clients: $(VENV)/ready ## Run the client tests on the built programs (PYTEST="-k sdk": some of them)
	$(VENV)/bin/python -m pytest Tests/Clients -n 3 --dist loadfile --no-loadscope-reorder $(PYTEST)

# The tests' Python packages, at the versions of the requirements file.
$(VENV)/ready: Tests/Clients/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

sanitize: ## Run the tests of memory and threads under their sanitizers
	BUILD="$(BUILD)" Tests/sanitize address
	BUILD="$(BUILD)" Tests/sanitize thread

fuzz: ## Fuzz every target, 60 s each (SECONDS=...)
	BUILD="$(BUILD)" Fuzzing/run $(or $(SECONDS),60)

# Tests that are too long for continuous integration. Variables that are set already stay.
export_campaign = export DIVAN_REPETITIONS=$${DIVAN_REPETITIONS:-5} \
	DIVAN_KILL_ROUNDS=$${DIVAN_KILL_ROUNDS:-30} DIVAN_DOCUMENTS=$${DIVAN_DOCUMENTS:-100000} \
	DIVAN_QUOTA_FACTOR=$${DIVAN_QUOTA_FACTOR:-10} DIVAN_EVICTION_TIMES=$${DIVAN_EVICTION_TIMES:-10} \
	DIVAN_CHANGES=$${DIVAN_CHANGES:-1000000} DIVAN_VIEW_ROWS=$${DIVAN_VIEW_ROWS:-1000000} \
	DIVAN_STRANGERS=$${DIVAN_STRANGERS:-10000}

campaign: ## Run long tests, fuzzing and simulation, for hours (CONTRIBUTING.md)
	@deps/install build install demo test
	@$(MAKE) --no-print-directory build-tests
	@$(export_campaign); $(MAKE) --no-print-directory clients
	@$(MAKE) --no-print-directory sanitize
	BUILD="$(BUILD)" Fuzzing/run $(or $(SECONDS),1800)
	BUILD="$(BUILD)" Tests/sweep $(SEEDS)

lint: ## Check the format of all Swift sources, and that planted mistakes apply
	swift format lint --strict --parallel -r $(FORMATTED)
	@for patch in Tests/Sabotage/*.patch; do git apply --check "$$patch" || exit 1; done

format: ## Format all Swift sources
	swift format -i --parallel -r $(FORMATTED)

benchmark: ## Compare with memcached and Redis, under 10 minutes (QUICK=1: under one)
	@deps/install build benchmark
	$(BUILD)
	@QUICK=$(QUICK) benchmarks/compare

targets: ## Measure the targets of a cluster, under 10 minutes (QUICK=1: under two)
	@deps/install build
	$(BUILD)
	@QUICK=$(QUICK) benchmarks/cluster

clean: ## Remove build products and the tests' Python packages; documents stay
	rm -rf .build $(VENV)
