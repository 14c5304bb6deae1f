#!/usr/bin/env bash
# Runs every fuzz target of the module for a short while.
#
#	fuzz.sh [TIME]   3s on all processors unless given; 20x is a number of attempts
#
# A package at a time is built and fuzzed on each processor, with one worker. So a build, and the
# start of a target, which runs its seeds one by one, keep one processor busy and not all waiting.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

native_env
time=${1:-3s}
processors=$(nproc)
if [[ $time =~ ^([0-9]+)s$ ]]; then
	time=$((BASH_REMATCH[1] * processors))s # as much of processors' time as all of them have in TIME
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cache=$(go env GOCACHE)/fuzz

# fuzz_package DIR fuzzes the targets of a package.
fuzz_package() {
	local dir=$1 own target
	own=$(mktemp -d -p "$scratch")
	# One instrumented binary for all targets of a package: go test would link it anew for each.
	go test -c -fuzz=. -tags "$tags" -o "$own/fuzz.test" "./$dir"
	for target in $(cd "$dir" && "$own/fuzz.test" -test.list '^Fuzz'); do
		# Without a limit, most of a short time goes into making inputs smaller.
		(cd "$dir" && "$own/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.parallel 1 \
			-test.fuzztime "$time" -test.fuzzminimizetime 100x -test.fuzzcachedir "$cache/transportbench/$dir") >"$own/log" 2>&1 || {
			# On a busy machine the time can run out while the engine waits for
			# a worker, which it reports as a failure without an input.
			if grep -q 'Failing input written' "$own/log" || ! grep -q '^ *context deadline exceeded' "$own/log"; then
				cat "$own/log"
				say "$target in $dir found an input that fails; it is now in $dir/testdata/fuzz/$target"
				return 255 # xargs then starts no other package
			fi
		}
		printf 'fuzz %s %s%s\n' "$dir" "$target" \
			"$(sed -n 's/^fuzz: .*\(execs: [0-9]*\).*(total: \([0-9]*\)).*/ \1, inputs: \2/p' "$own/log" | tail -n 1)"
	done
}
export -f fuzz_package say
export time scratch cache tags

# shellcheck disable=SC2016 # the shell that xargs starts expands it
grep -rlE '^func Fuzz[A-Z_0-9]\w*\(' --include='*_test.go' core plugins cmd 2>/dev/null | xargs -r -n1 dirname | sort -u |
	xargs -r -P "$processors" -I '{}' bash -euo pipefail -c 'fuzz_package "$1"' fuzz '{}' ||
	die "fuzzing failed"
