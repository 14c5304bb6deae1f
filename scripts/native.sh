# shellcheck shell=bash
# The programs of the plugins, and which of them want a native library. Source it after lib.sh.
#
# The plugins that need the same library are one program, which each of them is a link to: a plugin by
# itself has 14 MB, nearly all of which they share.
#
# A program that is not in the table is built without cgo. One that is gets the
# build tag of each of its libraries that pkg-config finds; where one is
# missing its plugins are stubs, or without what needs it, and say
# themselves what to install.

# program  pkg-config name  Debian package  build tag
#
# transports-libc opens its libraries at run time: it needs the headers of libibverbs, and
# for libcuda only a C compiler, for which the pkg-config name is a dash.
native_table() {
	cat "${NATIVE_TABLE:-/dev/fd/3}" 3<<-'TABLE'
	transports-ucx        ucx         libucx-dev      ucx
	transports-libfabric  libfabric   libfabric-dev   ofi
	transports-libc       libibverbs  libibverbs-dev  ibverbs
	transports-libc       libmlx5     libibverbs-dev  mlx5
	transports-libc       -           gcc             cuda
	TABLE
}

# The package that opens libibverbs at run time must not ask pkg-config for its headers: cgo would link it.
if include=$(pkg-config --variable=includedir libibverbs 2>/dev/null) && [ -n "$include" ] &&
	[[ " -I/usr/include ${CGO_CFLAGS:=-g -O2} " != *" -I$include "* ]]; then
	export CGO_CFLAGS+=" -I$include"
fi

# programs prints the name of every program of plugins in the tree.
programs() {
	local dir
	for dir in cmd/transports-*; do
		[ ! -d "$dir" ] || echo "${dir#cmd/}"
	done
}

# plugins_of PROGRAM prints the names of its plugins, which are the packages that it imports.
plugins_of() { sed -n 's,^.*/plugins/\([a-z0-9]*\)"$,\1,p' cmd/"$1"/*.go | sort -u; }

# native_rows PROGRAM prints the program's lines of the table.
native_rows() { native_table | awk -v program="$1" '$1 == program'; }

native_found() { [ "$1" = - ] || { have pkg-config && pkg-config --exists "$1"; }; }

# native_compiler prints the C compiler that cgo will use, or fails.
native_compiler() {
	local cc=${CC:-gcc}
	have "${cc%% *}" && echo "$cc"
}

# native_tags PROGRAM prints the build tags, comma-separated, of the program's
# libraries that can be used.
native_tags() {
	native_compiler >/dev/null || return 0
	native_rows "$1" | while read -r _ library _ tag; do
		if native_found "$library"; then echo "$tag"; fi
	done | sort -u | paste -sd, -
}

# native_missing PROGRAM prints the Debian packages that the program lacks.
native_missing() {
	[ -n "$(native_rows "$1")" ] || return 0
	local last=
	have pkg-config || echo pkg-config
	native_compiler >/dev/null || printf '%s\n' gcc libc6-dev
	native_rows "$1" | while read -r _ library package _; do
		native_found "$library" || [ "$package" = "$last" ] || { echo "$package" && last=$package; }
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

# What is built without cgo has these tags, too: the packages that depend on net and on os/user are then
# compiled once, for the command, the programs with cgo and the tests.
pure_tags=netgo,osusergo

# all_native_tags prints the tags of every program, for tools that look at the
# whole tree.
all_native_tags() {
	local program list
	list=$(for program in $(programs); do native_tags "$program" | tr , '\n'; done |
		sed '/^$/d' | sort -u | paste -sd, -)
	[ -z "$list" ] || echo "$pure_tags,$list"
}
