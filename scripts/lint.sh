#!/usr/bin/env bash
# Everything that is checked without running the code.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
native_env

unformatted=$(find core plugins cmd -name '*.go' -not -path '*/testdata/*' -exec gofmt -l {} +)
[ -z "$unformatted" ] || die "run gofmt -w on ${unformatted//$'\n'/ }"
# golangci-lint's lll opens files at the paths in Go's build cache, where another checkout's may be.
# shellcheck disable=SC2016 # awk expands it
long=$(find core plugins cmd docs results -name '*.go' -not -path '*/testdata/*' -exec env LC_ALL=C awk '
	FNR == 1 { raw = 0 }
	{
		line = $0
		columns = length(line) + 3 * gsub(/\t/, "", line) - gsub(/[\200-\277]/, "", line) # of UTF-8
		if (!raw) gsub(/"([^"\\]|\\.)*"|\x27`\x27/, "", line) # backticks in them begin no raw string
		quotes = $0 ~ /^[\t ]*\/\// ? 0 : gsub(/`/, "", line)
		if (columns > 100 && !raw && !quotes && $0 !~ /^\/\/go:/) print FILENAME ":" FNR
		if (quotes % 2) raw = !raw
	}' {} +)
[ -z "$long" ] || die "wrap at 100 columns, with tabs of four (raw strings may be longer): ${long//$'\n'/ }"
scripts/check-imports.sh
scripts/check-docs.sh
go_vet ./...
golangci_lint ./...
scripts/vulncheck.sh
if have shellcheck; then
	shellcheck -x scripts/*.sh .ci/run
else
	untested "scripts/*.sh" "shellcheck is not installed"
fi
