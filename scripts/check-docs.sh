#!/usr/bin/env bash
# Every package states its purpose in a doc.go of its own, and no file has the marks
# of a merge that was not finished.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

bad=0
for dir in $(find core plugins cmd -name '*.go' -not -path '*/testdata/*' -printf '%h\n' | sort -u); do
	if ! grep -qsE '^(// |/\*\s*)?(Package|Command) ' "$dir/doc.go"; then
		echo "$dir: no doc.go with a comment that begins with Package or Command" >&2
		bad=1
	fi
done
if git rev-parse --git-dir >/dev/null 2>&1 && git grep -nE '^(<<<<<<<|>>>>>>>) ' -- . >&2; then
	bad=1
fi
exit $bad
