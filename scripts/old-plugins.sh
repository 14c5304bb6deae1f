#!/usr/bin/env bash
# Builds the plugins of an older revision of this repository, and prints the directory that keeps
# them, for ab --a plugin-dir=DIR:
#
#	old-plugins.sh REVISION
#
# A revision is built once. diff finds them there, by their revision.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

commit=$(git rev-parse --verify --quiet "${1:-}^{commit}") || die "REVISION: \"${1:-}\" is no commit of this repository"
kept=${XDG_CACHE_HOME:-$HOME/.cache}/transportbench/plugins
dir=$kept/${commit:0:12}
if [ ! -d "$dir" ]; then
	echo "building the plugins of ${commit:0:12}, once: a minute, several on a busy machine" >&2
	tree=$(mktemp -d)
	trap 'git worktree remove --force "$tree/src" >/dev/null 2>&1 || true; rm -rf "$tree"' EXIT
	git worktree add --quiet --detach "$tree/src" "$commit"
	(cd "$tree/src" && scripts/build.sh) >&2
	mkdir -p "$kept"
	cp -r "$tree/src/bin/plugins" "$dir.$$"
	mv -T "$dir.$$" "$dir" # complete or not at all
fi
echo "$dir"
