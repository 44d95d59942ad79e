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

# Images that demos run on the testbed.
TEST_IMAGES := valkey-8.1 valkey-9.1 exporter
# Everything but what ships is compiled by builds of the whole workspace: they agree on features, so each crate is compiled once.
BUILD := cargo build --workspace
RUNNER := $(TARGET)/debug/test-runner

SCRIPTS := scripts/demo scripts/test-demo images/build images/test images/fetch-valkey charts/generate charts/find-helm charts/test e2e/install-operator bench/memory bench/orchestration bench/scale bench/lib.sh $(wildcard testbed/vm/*)
# Errors say themselves where they come from; where a failed test was called from says nothing, in sixty lines.
export RUST_LIB_BACKTRACE ?= 0

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo demo-down kubeconfig
demo: ## Set up everything on a bare Debian machine (as root): Kubernetes, the operator by Helm, a Valkey cluster; KIND=1: on kind or k3d
	@KIND=$(KIND) scripts/demo up

demo-down: ## Take the demo down
	@KIND=$(KIND) scripts/demo down

kubeconfig: testbed-build ## Print the path of the running testbed's kubeconfig
	@$(TESTBED) kubeconfig

.PHONY: test test-long test-unit test-demo test-images test-chart test-install test-e2e runner
test: runner ## Run all tests; the end names what failed and where its evidence is
	@$(RUNNER)

test-long: runner ## Run what only repeats: every version of Valkey everywhere, thousands of histories, other cgroups
	@$(RUNNER) --long

test-unit: runner ## Run the tests that need no cluster; some start real Valkey servers
	@$(RUNNER) unit

test-demo: runner ## Check how the demo refuses, stops and cleans up, and its way with kind and k3d, with stand-ins
	@$(RUNNER) demo

test-images: runner ## Build the images and check them
	@$(RUNNER) images

test-chart: runner ## Check the chart and what is made from it, without a cluster
	@$(RUNNER) chart

test-install: runner ## The same, and install, upgrade and uninstall it for real on a small testbed of its own
	@$(RUNNER) install

test-e2e: runner ## Run the end-to-end tests on testbeds of their own, or on KUBECONFIG with E2E_EXTERNAL=1
	@$(RUNNER) e2e

runner:
	@$(BUILD) --bin test-runner --bin testbed --bin testbed-agent

.PHONY: build images lint fmt generate
build: ## Compile the programs for release
	cargo build --release -p operator -p sidecar

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

generate: testbed-build ## Write everything that is generated: parameters, definitions, golden files, plain manifests
	export $$(images/fetch-valkey); cargo run -q -p api --example parameters
	cargo run -q -p api --example crd -- crates/api/crd
	UPDATE_GOLDEN=1 cargo test -q -p manifests
	@$(TESTBED) part helm >/dev/null
	charts/generate

$(DENY):
	cargo install --quiet --locked --root $(TOOLS)/cargo-deny-$(CARGO_DENY_VERSION) cargo-deny@$(CARGO_DENY_VERSION)

.PHONY: bench
bench: testbed-build ## Print the numbers we promise, each with its floor
	bench/memory
	bench/orchestration
	bench/scale
	cargo run --release -q -p bench --bin bench-line

.PHONY: testbed-build testbed-up testbed-down
testbed-build:
	@$(BUILD) --bin testbed --bin testbed-agent

testbed-up: testbed-build ## Start a real three-node Kubernetes on this machine
	@$(TESTBED) up --with helm
	@images/build $(TEST_IMAGES) | cut -d' ' -f2 | xargs $(TESTBED) load

testbed-down: testbed-build ## Take it down; nothing is left behind
	@$(TESTBED) down

.PHONY: install deploy run
install: ## Install the definitions into the current kubeconfig's cluster; somebody else's are never overwritten
	@$(BUILD) -q --bin valkey-operator
	$(TARGET)/debug/valkey-operator install-crds

deploy: ## Install or upgrade the operator there with Helm
	helm upgrade --install valkey-operator charts/valkey-operator --namespace valkey-operator-system --create-namespace --wait

run: install ## Run the operator of this working tree on the host against the current kubeconfig's cluster
	$(TARGET)/debug/valkey-operator run

.PHONY: docker-build docker-push
docker-build: ## Build the operator's and the sidecar's image
	images/build operator sidecar

docker-push: ## Push them to the registry that images/versions.env names
	images/build --push operator sidecar
