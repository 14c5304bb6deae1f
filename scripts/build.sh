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

build() { # CGO TAGS OUTPUT PACKAGE...
	CGO_ENABLED=$1 go build -buildvcs=false -ldflags "$ldflags" -tags "$2" -o "$3" "${@:4}"
}

build_plugin() { # CGO PLUGIN
	local output=bin/plugins/transport-$2
	if ! build "$1" "$(native_tags "$2")" "$output" "./cmd/transport-$2"; then
		# A plugin left from an earlier build would be taken for this one.
		rm -f "$output"
		die "the $2 transport does not build"
	fi
}

build 0 "" bin/transportbench ./cmd/transportbench

pure=() native=()
for plugin in $(plugins); do
	if [ -n "$(native_tags "$plugin")" ]; then native+=("$plugin"); else pure+=("$plugin"); fi
done
# One command builds all of a kind: it keeps every processor busy, and linking alone would not. A tag of
# another plugin's library has no effect. If one does not build, they are built one by one.
for kind in "0 ${pure[*]}" "1 ${native[*]}"; do
	read -r cgo list <<<"$kind"
	[ -n "$list" ] || continue
	tags=
	[ "$cgo" = 0 ] || tags=$(all_native_tags)
	read -r -a list <<<"$list"
	build "$cgo" "$tags" bin/plugins/ "${list[@]/#/./cmd/transport-}" 2>/dev/null ||
		for plugin in "${list[@]}"; do build_plugin "$cgo" "$plugin"; done
done

for plugin in $(plugins); do
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
