# The one command surface of the project; bare `make` lists it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/valkey-operator
TARGET := $(or $(CARGO_TARGET_DIR),target)
TESTBED := $(TARGET)/debug/testbed
TOOLS := $(CACHE)/tools
CARGO_DENY_VERSION := 0.20.2
DENY := $(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny

# Images that tests and demos run on the testbed.
TEST_IMAGES := valkey-8.1 valkey-9.1 exporter
# Tests use a testbed of their own, so that a running demo is not disturbed.
TEST_TESTBED := test

SCRIPTS := images/build images/test images/fetch-valkey charts/generate charts/find-helm charts/test e2e/install-operator
# The tests mostly wait, so more of them run at once than there are cores.
SKIPPED := $(TARGET)/e2e-skipped.txt
E2E_SUITES = cargo test -p e2e -- --test-threads=8; [ ! -s $(SKIPPED) ] || cat $(SKIPPED)

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo demo-down kubeconfig
demo: testbed-up ## Set up everything on a bare Debian machine (as root) and show a running cluster
	@export KUBECONFIG=$$($(TESTBED) kubeconfig); PATH=$$(dirname $$KUBECONFIG)/bin:$$PATH; \
	kubectl get nodes,pods -A; \
	echo; echo "Look around:  export KUBECONFIG=$$KUBECONFIG PATH=$$(dirname $$KUBECONFIG)/bin:\$$PATH"; \
	echo "Take it down: make demo-down"

demo-down: testbed-down ## Take the demo down

kubeconfig: testbed-build ## Print the path of the running testbed's kubeconfig
	@$(TESTBED) kubeconfig

.PHONY: test test-unit test-images test-e2e
test: test-unit test-images test-e2e ## Run all tests, the fast ones first

test-unit: ## Run the tests that need no cluster; some start real Valkey servers
	@images/fetch-valkey >/dev/null
	cargo test --workspace --exclude e2e

test-images: ## Build the images and check them
	images/build pause $(TEST_IMAGES)
	images/test

# With E2E_EXTERNAL=1 and KUBECONFIG the suites run on that cluster and no testbed is started.
test-e2e: testbed-build ## Run the end-to-end tests on a testbed of their own, or on KUBECONFIG with E2E_EXTERNAL=1
	cargo test -p e2e --no-run
	@rm -f $(SKIPPED)
ifeq ($(E2E_EXTERNAL),1)
	@$(E2E_SUITES)
else
	@export TESTBED_NAME=$(TEST_TESTBED); \
	[ -n "$${E2E_KEEP:-}" ] || trap '$(TESTBED) down' EXIT; \
	$(TESTBED) up --with helm; \
	images/build $(TEST_IMAGES) | cut -d' ' -f2 | xargs $(TESTBED) load; \
	$(E2E_SUITES)
endif

.PHONY: build images lint fmt generate
build: ## Compile the programs for release
	cargo build --release --workspace --exclude e2e --exclude testbed --exclude testbed-agent

images: ## Build all container images into the cache, from a registry or from Debian packages
	images/build all

lint: $(DENY) ## Check formatting, lints, licences and shell scripts
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	$(DENY) --log-level error check bans licenses sources
	@if command -v shellcheck >/dev/null; then shellcheck -x .ci/run $(SCRIPTS); \
	else echo "shellcheck is not installed: shell scripts are not checked"; fi

fmt: ## Format the sources
	cargo fmt --all

$(DENY):
	cargo install --quiet --locked --root $(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION) cargo-deny@$(CARGO_DENY_VERSION)

.PHONY: testbed-build testbed-up testbed-down
testbed-build:
	@cargo build --quiet -p testbed -p testbed-agent

testbed-up: testbed-build ## Start a real three-node Kubernetes on this machine
	@$(TESTBED) up --with helm
	@images/build $(TEST_IMAGES) | cut -d' ' -f2 | xargs $(TESTBED) load

testbed-down: testbed-build ## Take it down; nothing is left behind
	@$(TESTBED) down

.PHONY: docker-build docker-push
docker-build: ## Build the operator's and the sidecar's image
	images/build operator sidecar

docker-push: ## Push them to the registry that images/versions.env names
	images/build --push operator sidecar
