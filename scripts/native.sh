# shellcheck shell=bash
# Which plugins want a native library. Source it after lib.sh.
#
# A plugin that is not in the table is built without cgo. One that is gets the
# build tag of each of its libraries that pkg-config finds; where one is
# missing the plugin is built as a stub, or without the provider that needs it,
# and says itself what to install.

# plugin  pkg-config name  Debian package  build tag
#
# A plugin that opens its library at run time needs a C compiler and no more: its
# pkg-config name is a dash.
native_table() {
	cat "${NATIVE_TABLE:-/dev/fd/3}" 3<<-'TABLE'
	ucxam ucx libucx-dev ucx
	ofi libfabric libfabric-dev ofi
	copyrpc  libibverbs  libibverbs-dev  ibverbs
	erpc  libibverbs  libibverbs-dev  ibverbs
	tcpx  -  gcc  cuda
	TABLE
}

# plugins prints the name of every plugin in the tree.
plugins() {
	local dir
	for dir in cmd/transport-*/; do
		[ -d "$dir" ] || continue
		dir=${dir%/}
		echo "${dir#cmd/transport-}"
	done
}

# native_rows PLUGIN prints the plugin's lines of the table.
native_rows() { native_table | awk -v plugin="$1" '$1 == plugin'; }

native_found() { [ "$1" = - ] || { have pkg-config && pkg-config --exists "$1"; }; }

# native_compiler prints the C compiler that cgo will use, or fails.
native_compiler() {
	local cc=${CC:-gcc}
	have "${cc%% *}" && echo "$cc"
}

# native_tags PLUGIN prints the build tags, comma-separated, of the plugin's
# libraries that can be used.
native_tags() {
	native_compiler >/dev/null || return 0
	native_rows "$1" | while read -r _ library _ tag; do
		if native_found "$library"; then echo "$tag"; fi
	done | sort -u | paste -sd, -
}

# native_missing PLUGIN prints the Debian packages that the plugin lacks.
native_missing() {
	[ -n "$(native_rows "$1")" ] || return 0
	have pkg-config || echo pkg-config
	native_compiler >/dev/null || printf '%s\n' gcc libc6-dev
	native_rows "$1" | while read -r _ library package _; do
		native_found "$library" || echo "$package"
	done
}

# native_env sets tags to the build tags of the libraries that were found, and
# CGO_ENABLED as the binaries are built: one set of compiled packages then serves the
# build and the tests.
native_env() {
	tags=$(all_native_tags)
	CGO_ENABLED=0
	[ -z "$tags" ] || CGO_ENABLED=1
	export CGO_ENABLED
}

# go_vet and golangci_lint check packages. They compile without -trimpath: with it,
# checkouts share what cgo wrote into the build cache, which names the files of the
# checkout that wrote it, and both fail once that checkout is gone.
go_vet() {
	GOFLAGS=${GOFLAGS//-trimpath/} go vet -tags "$tags" "$@"
}

golangci_lint() {
	GOFLAGS="${GOFLAGS//-trimpath/} -buildvcs=false" go tool -modfile=tools/go.mod golangci-lint run --build-tags "$tags" "$@"
}

# all_native_tags prints the tags of every plugin, for tools that look at the
# whole tree. With netgo and osusergo, the packages that depend on net and on
# os/user are the same as without cgo, and are compiled once for both.
all_native_tags() {
	local plugin list
	list=$(for plugin in $(plugins); do native_tags "$plugin" | tr , '\n'; done |
		sed '/^$/d' | sort -u | paste -sd, -)
	[ -z "$list" ] || echo "netgo,osusergo,$list"
}
