#!/usr/bin/env bash
# Checks and tests everything, cheapest first; go test's own summary comes
# last. setup.sh has installed what this needs.
#
#	test.sh [FUZZTIME]
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
tags=$(all_native_tags)
# Without cgo, as the binaries are built: one set of compiled packages serves
# the build, vet, the linter and the tests.
CGO_ENABLED=0
[ -z "$tags" ] || CGO_ENABLED=1
export CGO_ENABLED

step() { printf '== %s\n' "$*"; }

step "scripts"
for script in scripts/*_test.sh; do "$script"; done

step "build"
scripts/build.sh

step "lint"
scripts/lint.sh

step "verbs"
RDMA_LIMIT=600 scripts/test-rdma.sh

step "fuzz"
scripts/fuzz.sh "${1:-5s}"

# tests runs go test with these arguments over these packages. A test that fails
# is run again by itself, twice at most: on two shared processors a test can lose
# them for seconds. What passed only then is listed as such at the end, and is a
# fault to be found; a data race, a package that fails as a whole and more than
# five failures are never run again.
tests() {
	local packages=$1
	shift
	GOFLAGS=-buildvcs=false go tool -modfile=tools/go.mod gotestsum --format standard-quiet \
		--rerun-fails=2 --rerun-fails-max-failures=5 --rerun-fails-run-root-test \
		--rerun-fails-abort-on-data-race --packages "$packages" -- -tags "$tags" "$@"
}

# cmd holds no shared memory of its own, and its tests build and run binaries.
step "race"
CGO_ENABLED=1 tests "./core/... ./plugins/..." -race

# One package at a time: some run benchmarks, which want the processors.
step "test"
tests ./... -p 1
