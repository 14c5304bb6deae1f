#!/usr/bin/env bash
# Every package states its purpose in a doc.go, no file has conflict marks, and every relative link of
# a document leads to a file and, in a document, to a heading.
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

# anchors prints the anchors that GitHub makes of a document's headings.
anchors() {
	awk '
		/^ *```/ { fenced = !fenced }
		!fenced && /^#+ / {
			sub(/^#+ +/, "")
			gsub(/\]\([^)]*\)/, "")
			$0 = tolower($0)
			gsub(/[^a-z0-9_ -]/, "")
			gsub(/ /, "-")
			print $0 (seen[$0]++ ? "-" seen[$0] - 1 : "")
		}' "$1"
}

while IFS=: read -r file link; do
	target=${link%%#*} anchor=
	if [[ $link == *#* ]]; then
		anchor=${link#*#}
	fi
	path=$file
	if [[ -n $target ]]; then
		path=$(dirname "$file")/$target
	fi
	if [[ ! -e $path ]]; then
		echo "$file: dead link to $link" >&2
		bad=1
	elif [[ -n $anchor && $path == *.md ]] && ! grep -qxF -- "$anchor" <(anchors "$path"); then
		echo "$file: no heading for $link" >&2
		bad=1
	fi
done < <(find ./*.md docs results plugins core -name '*.md' -exec grep -oHE '\]\([^)[:space:]]+\)' {} + |
	sed -E 's/\]\((.*)\)$/\1/' | grep -vE ':(https?|mailto):')
exit $bad
