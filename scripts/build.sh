#!/usr/bin/env bash
# Builds the command into bin/, and into bin/plugins/ the programs of the plugins with a link for each.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
mkdir -p bin/plugins
# The digests of the plugins' sources. The program that makes them runs here, also if GOARCH is another.
sources=$(CGO_ENABLED=1 go list -deps -tags "$(all_native_tags)" \
	-json=ImportPath,Dir,Module,Deps,GoFiles,CgoFiles,CFiles,HFiles,SFiles ./plugins/... |
	GOOS='' GOARCH='' go run ./core/plugin/sources "$(go env GOVERSION GOARCH GOAMD64 GOARM64 GOEXPERIMENT)")
ldflags="-X transportbench/core.revision=$(revision) -X transportbench/core/plugin.sources=$sources"

build() { # CGO TAGS OUTPUT PACKAGE...
	CGO_ENABLED=$1 go build -buildvcs=false -ldflags "$ldflags" -tags "$2" -o "$3" "${@:4}"
}

build_program() { # CGO PROGRAM
	if ! build "$1" "$(native_tags "$2")" "bin/plugins/$2" "./cmd/$2"; then
		# One left from an earlier build would be taken for this one.
		rm -f "bin/plugins/$2"
		for plugin in $(plugins_of "$2"); do rm -f "bin/plugins/transport-$plugin"; done
		die "$2 does not build, the program of $(list_of "$2")"
	fi
}

list_of() { plugins_of "$1" | paste -sd, - | sed 's/,/, /g'; } # PROGRAM

build 0 "$pure_tags" bin/transportbench ./cmd/transportbench

pure=() native=()
for program in $(programs); do
	if [ -n "$(native_tags "$program")" ]; then native+=("$program"); else pure+=("$program"); fi
done
# One command builds all of a kind: it keeps every processor busy, and linking alone would not. A tag of
# another program's library has no effect. If one does not build, they are built one by one.
for kind in "0 ${pure[*]}" "1 ${native[*]}"; do
	read -r cgo list <<<"$kind"
	[ -n "$list" ] || continue
	tags=$pure_tags
	[ "$cgo" = 0 ] || tags=$(all_native_tags)
	read -r -a list <<<"$list"
	build "$cgo" "$tags" bin/plugins/ "${list[@]/#/./cmd/}" 2>/dev/null ||
		for program in "${list[@]}"; do build_program "$cgo" "$program"; done
done

# The plugin of a transport that is no longer in the tree would still be found.
rm -f bin/plugins/transport-*
for built in bin/plugins/*; do [ -d "cmd/${built##*/}" ] || rm -f "$built"; done
for program in $(programs); do
	for plugin in $(plugins_of "$program"); do ln -s "$program" "bin/plugins/transport-$plugin"; done
	mapfile -t missing < <(native_missing "$program")
	if [ ${#missing[@]} -gt 0 ]; then
		say "$(list_of "$program"): a stub, or incomplete, if it needs what is missing: apt install ${missing[*]}, then make build"
	fi
done
