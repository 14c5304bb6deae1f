#!/usr/bin/env bash
# Writes the manual pages into bin/man, with the date of the last commit.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_go
rm -rf bin/man
SOURCE_DATE_EPOCH=$(commit_time) CGO_ENABLED=0 go run -buildvcs=false ./cmd/transportbench/internal/man bin/man
