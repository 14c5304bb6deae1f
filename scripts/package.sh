#!/usr/bin/env bash
# Makes a tarball and a .deb in bin/package of what make build has built, with the licences of all that is
# in them, a bill of materials (CycloneDX) and SHA256SUMS. Equal binaries make equal packages.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_go
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
scripts/man.sh
scripts/install.sh /usr "$tree"

# The binary's own words name the packages: 0.6.0 and the first digits of its commit.
read -r _ version _ revision <<<"$(bin/transportbench --version)"
version=${version%,}
metadata=g${revision:0:8}
[[ $revision != *+modified ]] || metadata+=.modified
arch=$(go env GOARCH)
SOURCE_DATE_EPOCH=$(commit_time)
export SOURCE_DATE_EPOCH

rm -rf bin/package
mkdir -p bin/package
name=transportbench_$version+${metadata}_linux_$arch
gzip -9n "$tree"/usr/share/man/man1/*
install -d "$tree/usr/share/doc/transportbench"
# DEBFULLNAME and DEBEMAIL are what Debian's tools read, too.
maintainer="${DEBFULLNAME:-transportbench} <${DEBEMAIL:-transportbench@localhost}>"
# The part of each version in CHANGELOG.md is an entry. The first one, "Unreleased" or the version itself, is
# that of this package.
entry() { # HEADING VERSION DATE
	printf 'transportbench (%s) unstable; urgency=medium\n\n' "$2"
	awk -v heading="$1" '
		function wrap(  i, n, word, line) {
			n = split(item, word, " ")
			for (i = 1; i <= n; i++) {
				if (line && length(line " " word[i]) > 79) { print line; line = "   " }
				line = line (line ? " " : "  ") word[i]
			}
			if (n) print line
			item = ""
		}
		/^## / { shown = $0 == heading; next }
		shown && sub(/^- /, "* ") { wrap() }
		shown { item = item " " $0 }
		END { wrap() }' CHANGELOG.md
	printf '\n -- %s  %s\n\n' "$maintainer" "$(LC_ALL=C date -u -R -d "$3")"
}
{
	first=$(grep -m1 '^## ' CHANGELOG.md)
	entry "$first" "$version+$metadata" "@$SOURCE_DATE_EPOCH"
	sed -nE '/^## [0-9.]+ \([0-9-]+\)$/p' CHANGELOG.md | while read -r heading; do
		[ "$heading" = "$first" ] || { read -r _ number day <<<"${heading//[()]/}" && entry "$heading" "$number" "$day"; }
	done
} | gzip -9n >"$tree/usr/share/doc/transportbench/changelog.gz"
embedded=''
assets=$PWD/core/lab/doc/report/assets
if [ -d "$assets" ]; then
	embedded=uplot@$(sed -n '1s/.*uPlot (v\(.*\)).*/\1/p' "$assets/uPlot.iife.min.js")=$assets/uPlot.LICENSE
fi
depends=$(go -C tools/package run ./bill -source "$PWD" -version "$version+$metadata" -time "$SOURCE_DATE_EPOCH" \
	-npm "$embedded" -copyright "$tree/usr/share/doc/transportbench/copyright" -bom "$PWD/bin/package/$name.cdx.json" \
	"$tree/usr/bin/transportbench" "$tree"/usr/lib/transportbench/plugins/transports-*) || die "the licences are not known"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --transform "s,^\.,$name," \
	-C "$tree/usr" -cf - . | gzip -n >"bin/package/$name.tar.gz"

# A plugin whose library is missing is listed with the reason or runs without a provider, so its library is
# only recommended.
cat >"$scratch/nfpm.yaml" <<YAML
name: transportbench
arch: $arch
platform: linux
version: $version
version_metadata: $metadata
maintainer: "$maintainer"
description: |
  compares RPC transports apples to apples
  Runs the same load over shared memory, RDMA, UDP, TCP, UCX, libfabric and gRPC.
  Revision $revision.
section: net
priority: optional
mtime: "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
depends: [${depends:+"$depends"}]
recommends: [libucx0, libfabric1, libibverbs1, bash-completion]
deb:
  compression: zstd
contents:
  - src: $tree/usr/
    dst: /usr
    type: tree
YAML
go tool -modfile=tools/package/go.mod nfpm package --config "$scratch/nfpm.yaml" --packager deb --target bin/package/ >"$scratch/log" 2>&1 || {
	cat "$scratch/log" >&2
	die "nfpm could not make the .deb"
}
(cd bin/package && sha256sum -- * >"$scratch/sums" && mv "$scratch/sums" SHA256SUMS)
ls -sh bin/package
