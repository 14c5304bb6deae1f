#!/usr/bin/env bash
# Builds the command into bin/ and every plugin into bin/plugins/.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
mkdir -p bin/plugins
ldflags="-X transportbench/core.revision=$(revision)"

build() { # CGO TAGS OUTPUT PACKAGE
	CGO_ENABLED=$1 go build -trimpath -buildvcs=false -ldflags "$ldflags" -tags "$2" -o "$3" "$4"
}

build 0 "" bin/transportbench ./cmd/transportbench

for plugin in $(plugins); do
	output=bin/plugins/transport-$plugin
	tags=$(native_tags "$plugin")
	cgo=0
	[ -z "$tags" ] || cgo=1
	if ! build "$cgo" "$tags" "$output" "./cmd/transport-$plugin"; then
		# A plugin left from an earlier build would be taken for this one.
		rm -f "$output"
		die "the $plugin transport does not build"
	fi
	mapfile -t missing < <(native_missing "$plugin")
	if [ ${#missing[@]} -gt 0 ]; then
		say "the $plugin transport is a stub, or lacks a provider; for the real one: apt install ${missing[*]}, then make build"
	fi
done

# The plugin of a transport that is no longer in the tree would still be found.
for built in bin/plugins/transport-*; do
	name=${built##*/transport-}
	[ -d "cmd/transport-$name" ] || rm -f "$built"
done
