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

step "generated code"
if have protoc; then
	scripts/generate.sh --check
else
	say "protoc is not installed: the generated code goes unchecked"
fi

step "fuzz"
scripts/fuzz.sh "${1:-5s}"

# cmd holds no shared memory of its own, and its tests build and run binaries.
step "race"
CGO_ENABLED=1 go test -race -tags "$tags" ./core/... ./plugins/...

# One package at a time: some run benchmarks, which want the processors.
step "test"
go test -p 1 -tags "$tags" ./...
