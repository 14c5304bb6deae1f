#!/usr/bin/env bash
# Installs what is missing, and prints nothing if nothing is missing.
#
#	setup.sh bench   what it takes to build everything and run it
#	setup.sh test    that, and what the tests want
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go

# A library that cannot be had costs its own plugin only.
for plugin in $(plugins); do
	mapfile -t missing < <(native_missing "$plugin")
	if [ ${#missing[@]} -gt 0 ]; then
		install_packages "the $plugin transport needs it" "${missing[@]}" ||
			say "going on without the $plugin transport"
	fi
done

if [ "${1:-bench}" = test ]; then
	if ! native_compiler >/dev/null; then
		install_packages "the race detector needs a C compiler" gcc libc6-dev
	fi
	if ! have chromium && ! have chromium-browser && ! have google-chrome; then
		install_packages "the report is tested in it" chromium fonts-dejavu-core ||
			say "going on without Chromium"
	fi
	if ! have strace; then
		install_packages "the counters of system calls are compared with it" strace ||
			say "going on without strace"
	fi
	if ! have shellcheck; then
		install_packages "the scripts are checked with it" shellcheck ||
			say "going on without shellcheck"
	fi
fi
