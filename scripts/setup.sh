#!/usr/bin/env bash
# Installs what is missing, and prints nothing if nothing is missing.
#
#	setup.sh bench   what it takes to build everything and run it
#	setup.sh test    that, and what make test wants
#	setup.sh all     that, and what all other tests and checks want
#	setup.sh arm64   what the tests on arm64 want
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go

# modules downloads the modules of a go.mod. Commands that need them later would print a line for each.
modules() { # GO.MOD
	[ -e "$1" ] || return 0
	GOPROXY=off go mod download -modfile="$1" 2>/dev/null && return
	say "downloading the Go modules of $1"
	go mod download -modfile="$1" || say "some cannot be downloaded; going on with those that are there"
}

modules go.mod

if [ "${1:-bench}" = arm64 ]; then
	if [ "$(uname -m)" != aarch64 ]; then
		have qemu-aarch64 || install_packages "the tests run on arm64 in it" qemu-user ||
			say "going on without running tests on arm64"
		have aarch64-linux-gnu-gcc || install_packages "cgo is compiled for arm64 with it" gcc-aarch64-linux-gnu libc6-dev-arm64-cross ||
			say "going on without compiling cgo for arm64"
	fi
	exit 0
fi

# A library that cannot be had costs the plugins of its program only.
for program in $(programs); do
	mapfile -t missing < <(native_missing "$program")
	if [ ${#missing[@]} -gt 0 ]; then
		list=$(plugins_of "$program" | paste -sd' ' -)
		install_packages "needed by $list" "${missing[@]}" || say "going on without $list"
	fi
done

if [ "${1:-bench}" = test ]; then
	# A few modules of tools/go.mod; the others are the linter's.
	go tool -modfile=tools/go.mod gotestsum --version >/dev/null 2>&1 || modules tools/go.mod
fi

if [ "${1:-bench}" != bench ] && ! have strace; then
	install_packages "the counters of system calls are compared with it" strace ||
		say "going on without strace"
fi

if [ "${1:-bench}" = all ]; then
	modules tools/go.mod
	modules tools/package/go.mod
	modules tools/kubernetes/go.mod
	if ! native_compiler >/dev/null; then
		install_packages "the race detector needs a C compiler" gcc libc6-dev
	fi
	if ! have chromium && ! have chromium-browser && ! have google-chrome; then
		install_packages "the report is tested in it" chromium fonts-dejavu-core ||
			say "going on without Chromium"
	fi
	if ! have sockperf; then
		install_packages "the option --witness is tested with it" sockperf ||
			say "going on without sockperf"
	fi
	# Only root can make the cluster, and a developer's own machine should get no servers.
	if [ "$(id -u)" = 0 ] && ! PATH=$PATH:/usr/sbin have_all slurmctld slurmd srun mpirun sshd ssh ip; then
		install_packages "hosts are tested with a cluster of namespaces" \
			slurmctld slurmd slurm-client openmpi-bin openssh-server openssh-client iproute2 ||
			say "going on without Slurm, Open MPI and ssh"
	fi
	if ! have shellcheck; then
		install_packages "the scripts are checked with it" shellcheck ||
			say "going on without shellcheck"
	fi
fi
