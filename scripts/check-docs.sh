#!/usr/bin/env bash
# Every package states its purpose in a doc.go, no file has conflict marks, and every
# relative link of a document leads to a file.
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
while IFS=: read -r file link; do
	target=${link%%#*}
	if [[ -n $target && ! -e "$(dirname "$file")/$target" ]]; then
		echo "$file: dead link to $link" >&2
		bad=1
	fi
done < <(find ./*.md docs results plugins core -name '*.md' -exec grep -oHE '\]\([^)[:space:]]+\)' {} + |
	sed -E 's/\]\((.*)\)$/\1/' | grep -vE ':(https?|mailto):')
exit $bad
