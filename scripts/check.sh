#!/usr/bin/env bash
# A quick check before a commit: builds everything, lints and tests the packages that
# changed since BASE, which is where the branch left origin/main, or else the last commit.
#
#	check.sh [BASE]
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
native_env
base=${1:-$(git merge-base HEAD origin/main 2>/dev/null || echo HEAD)}
git rev-parse --quiet --verify "$base^{commit}" >/dev/null || die "no commit $base"

mapfile -t files < <({
	git diff --name-only "$base" -- core plugins cmd docs
	git ls-files --others --exclude-standard -- core plugins cmd docs
} | sort -u)
# A changed file belongs to the package of the nearest directory with Go files.
mapfile -t packages < <(for file in "${files[@]}"; do
	dir=$(dirname "$file")
	until compgen -G "$dir/*.go" >/dev/null || [ "$dir" = . ]; do dir=$(dirname "$dir"); done
	[ "$dir" = . ] || [ "$dir" = docs/example ] || echo "./$dir"
done | sort -u)
# The tests beside the command's main run real transports for minutes; make test-all has them.
mapfile -t tested < <(printf '%s\n' "${packages[@]}" | grep -vx './cmd/transportbench' || true)

scripts/build.sh
go_vet ./...
scripts/check-imports.sh
scripts/check-docs.sh
if [ ${#packages[@]} = 0 ]; then
	say "no package has changed since $(git rev-parse --short "$base")"
	exit 0
fi
unformatted=$(gofmt -l "${packages[@]}")
[ -z "$unformatted" ] || die "run gofmt -w on ${unformatted//$'\n'/ }"
golangci_lint "${packages[@]}"
# One package at a time, because the threads of most of them spin.
[ ${#tested[@]} = 0 ] || go test -short -p 1 -tags "$tags" "${tested[@]}"
