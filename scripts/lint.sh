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
scripts/check-imports.sh
scripts/check-docs.sh
go_vet ./...
# make build leaves out mlx5dv, so nothing else compiles it.
if [[ ,$tags, == *,ibverbs,* ]] && native_found libmlx5; then
	go build -tags "$tags,mlx5dv" ./core/fabric/rdma/...
fi
golangci_lint ./...
scripts/vulncheck.sh
if have shellcheck; then
	shellcheck -x scripts/*.sh .ci/run
else
	untested "scripts/*.sh" "shellcheck is not installed"
fi
