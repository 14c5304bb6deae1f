# transportbench: see README.md. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# How long each fuzz target runs.
FUZZTIME ?= 3s

# How long make soak runs, all transports together.
SOAK ?= 1h

# How often test-long cuts links at random moments; 0 leaves out most of its cuts.
LINK_TEST_RUNS ?= 2
# 0 leaves out the tests on arm64, but for its build.
ARM64_TESTS ?= 1
# 0 leaves out the build of a release.
RELEASE_TEST ?= 1

# For how long test-long inflicts random faults on runs.
FAULTTIME ?= 10m

# Where make install puts things.
PREFIX ?= /usr/local

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: bench
bench: ## compare every transport that this machine can run
	@scripts/setup.sh bench
	@scripts/build.sh
	@bin/transportbench bench

.PHONY: bench-peers
bench-peers: ## compare transports with their libraries' own benchmarks
	@scripts/bench-peers.sh

.PHONY: reproduce
reproduce: ## record the five documents in full, about an hour, and write docs/claims.md
	@scripts/build.sh
	@for document in benchkv copyrpc kvstore shm tcpx; do \
		out=results/local/reproduced/$$document resume=; mkdir -p results/reproduced; \
		[ ! -e "$$out/published.json" ] || resume=--resume; \
		bin/transportbench reproduce "$$document" --full $$resume --out "$$out" --json \
			>"results/reproduced/$$document.json" || exit; \
		{ bin/transportbench --version; bin/transportbench reproduce "$$document" --full --resume \
			--out "$$out"; } >"results/reproduced/$$document.txt" || exit; \
	done
	@go test -trimpath ./docs -run TestClaims -update

.PHONY: check
check: ## before a commit: build, and lint and test the packages that changed
	@scripts/check.sh

.PHONY: test
test: ## build, and test transports, runtime and command: 8 minutes on two processors, 4 with build caches
	@scripts/setup.sh test
	@scripts/test.sh

.PHONY: test-all
test-all: ## build, and run all tests but the long ones: about 9 minutes
	@scripts/setup.sh all
	@scripts/test.sh all

.PHONY: test-long
test-long: ## lint, race detector, verbs in a guest, arm64, fuzzing, each benchmark, long tests, faults for FAULTTIME (10m)
	@scripts/setup.sh all
	@[ "$(ARM64_TESTS)" = 0 ] || scripts/setup.sh arm64
	@ARM64_TESTS=$(ARM64_TESTS) RELEASE_TEST=$(RELEASE_TEST) FUZZTIME=$(FUZZTIME) FAULTTIME=$(FAULTTIME) LINK_TEST_RUNS=$(LINK_TEST_RUNS) scripts/test.sh long

.PHONY: test-ci
test-ci: ## the part of test-long that .ci/run has time for
	@scripts/setup.sh all
	@scripts/test.sh ci

.PHONY: soak
soak: ## all transports for SOAK (1h), in which nothing may grow; then all long tests in full
	@scripts/setup.sh all
	@SOAK=$(SOAK) scripts/test.sh soak

.PHONY: test-rdma
test-rdma: ## test verbs: on Soft-RoCE in QEMU, or on DEVICE=mlx5_0
	@scripts/test-rdma.sh $(DEVICE)

.PHONY: test-arm64
test-arm64: ## build for arm64, and test packages without cgo in QEMU
	@scripts/setup.sh arm64
	@scripts/test-arm64.sh

.PHONY: build
build: ## build bin/transportbench and bin/plugins/transport-*
	@scripts/build.sh

.PHONY: man
man: ## write manual pages into bin/man
	@scripts/man.sh

.PHONY: install
install: ## after make build: install below PREFIX (/usr/local), with DESTDIR before it
	@scripts/install.sh "$(PREFIX)" "$(DESTDIR)"

.PHONY: package
package: build ## make a tarball and a .deb in bin/package
	@scripts/package.sh

.PHONY: release
release: ## build the last commit twice, compare, and put packages and checksums in bin/release
	@scripts/release.sh

.PHONY: lint
lint: ## vet, lint, check the import rules, look for known vulnerabilities
	@scripts/lint.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (3s)
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: clean
clean: ## remove what was built; results stay
	rm -rf bin
