#!/usr/bin/env bash
# Everything that is checked without running the code.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
tags=$(all_native_tags)
CGO_ENABLED=0
[ -z "$tags" ] || CGO_ENABLED=1
export CGO_ENABLED

unformatted=$(find core plugins cmd -name '*.go' -not -path '*/testdata/*' -exec gofmt -l {} +)
[ -z "$unformatted" ] || die "run gofmt -w on ${unformatted//$'\n'/ }"
scripts/check-imports.sh
scripts/check-docs.sh
go vet -tags "$tags" ./...
GOFLAGS=-buildvcs=false go tool -modfile=tools/go.mod golangci-lint run --build-tags "$tags" ./...
if have shellcheck; then
	shellcheck -x scripts/*.sh .ci/run
else
	say "shellcheck is not installed: the scripts go unchecked"
fi
