#!/usr/bin/env bash
# Makes the files of a release of the last commit in bin/release, and proves that others can make them again:
# they are built twice, in two clones and with two caches, and must be equal.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_go
[[ $(revision) != unknown ]] || die "a release is built from a commit: this is no git repository"
[[ $(revision) != *+modified ]] || die "a release is built from a commit: commit or undo your changes first"
version=$(sed -n 's/^const Version = "\(.*\)"$/\1/p' core/version.go)
first=$(grep -m1 '^## ' CHANGELOG.md)
[ -n "${UNRELEASED:-}" ] || [[ $first == "## $version ("* ]] ||
	die "CHANGELOG.md begins with \"$first\": turn it into version $version; UNRELEASED=1 builds a snapshot"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/cache"
# RELEASE_CACHE, for the tests of this script, is the cache of the second build: an empty one takes minutes.
caches=("$(go env GOCACHE)" "${RELEASE_CACHE:-$scratch/cache}")
for i in 0 1; do
	git clone -q . "$scratch/$i"
	GOCACHE=${caches[i]} "$scratch/$i/scripts/build.sh"
	"$scratch/$i/scripts/package.sh"
done
diff "$scratch"/{0,1}/bin/package/SHA256SUMS >&2 || die "two builds of the same commit differ"
rm -rf bin/release
mkdir -p bin
mv "$scratch/0/bin/package" bin/release
say "two builds are equal; the release is in bin/release"
