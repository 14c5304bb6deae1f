#!/usr/bin/env bash
# Makes bin/package/transportbench_VERSION_linux_ARCH.tar.gz and a .deb of what make build has built.
# Equal binaries make equal packages.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

need_go
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
scripts/man.sh
scripts/install.sh /usr "$tree"
if have strip; then strip "$tree/usr/bin/transportbench" "$tree"/usr/lib/transportbench/plugins/*; fi

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
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --transform "s,^\.,$name," \
	-C "$tree/usr" -cf - . | gzip -n >"bin/package/$name.tar.gz"

# A plugin whose library is missing is listed with the reason, so the libraries are not required.
cat >"$scratch/nfpm.yaml" <<YAML
name: transportbench
arch: $arch
platform: linux
version: $version
version_metadata: $metadata
maintainer: transportbench <transportbench@localhost>
description: |
  compares RPC transports apples to apples
  Runs the same load over shared memory, RDMA, UDP, TCP, UCX, libfabric and gRPC.
  Revision $revision.
section: net
priority: optional
mtime: "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
depends: [libc6]
recommends: [libucx0, libfabric1, libibverbs1]
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
ls -sh bin/package
