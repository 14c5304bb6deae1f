#!/bin/sh
# Generates the Go code of core/plugin/controlpb from control.proto.
#
#   scripts/generate.sh          writes the files
#   scripts/generate.sh --check  fails where the committed ones differ
#
# protoc is Debian's (package protobuf-compiler); its version appears in a
# comment of what it generates, so the comparison leaves comments with
# versions out. The two Go generators have the versions fixed here.
set -eu

PROTOC_GEN_GO=v1.36.12
PROTOC_GEN_GO_GRPC=v1.6.2

cd "$(dirname "$0")/.."

if ! command -v protoc >/dev/null; then
	echo "generate.sh: protoc is missing: apt-get install protobuf-compiler" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

GOBIN=$work/bin GOFLAGS="" go install "google.golang.org/protobuf/cmd/protoc-gen-go@$PROTOC_GEN_GO"
GOBIN=$work/bin GOFLAGS="" go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$PROTOC_GEN_GO_GRPC"

mkdir "$work/out"
PATH=$work/bin:$PATH protoc --proto_path=. \
	--go_out="$work/out" --go_opt=paths=source_relative \
	--go-grpc_out="$work/out" --go-grpc_opt=paths=source_relative \
	core/plugin/controlpb/control.proto

status=0
for generated in "$work"/out/core/plugin/controlpb/*.go; do
	target=core/plugin/controlpb/$(basename "$generated")
	if [ "${1-}" != --check ]; then
		cp "$generated" "$target"
	elif ! diff -u -I '^//.*protoc' "$target" "$generated"; then
		echo "generate.sh: $target is out of date: run scripts/generate.sh" >&2
		status=1
	fi
done
exit $status
