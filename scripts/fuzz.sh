#!/usr/bin/env bash
# Runs every fuzz target of the module for a short while each.
#
#	fuzz.sh [TIME]   3s unless given
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

time=${1:-3s}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cache=$(go env GOCACHE)/fuzz

mapfile -t dirs < <(grep -rlE '^func Fuzz[A-Z_0-9]\w*\(' --include='*_test.go' core plugins cmd 2>/dev/null |
	xargs -r -n1 dirname | sort -u)
for dir in "${dirs[@]}"; do
	# One instrumented binary for all targets of a package: go test would link
	# it anew for each.
	go test -c -fuzz=. -o "$scratch/fuzz.test" "./$dir"
	for target in $(cd "$dir" && "$scratch/fuzz.test" -test.list '^Fuzz'); do
		printf 'fuzz %s %s' "$dir" "$target"
		# Without a limit, most of a short time goes into making inputs smaller.
		(cd "$dir" && "$scratch/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" \
			-test.fuzztime "$time" -test.fuzzminimizetime 100x -test.fuzzcachedir "$cache/transportbench/$dir") >"$scratch/log" 2>&1 || {
			# On a busy machine the time can run out while the engine waits for
			# a worker, which it reports as a failure without an input.
			if grep -q 'Failing input written' "$scratch/log" || ! grep -q '^ *context deadline exceeded' "$scratch/log"; then
				echo
				cat "$scratch/log"
				die "$target in $dir found an input that fails; it is now in $dir/testdata/fuzz/$target"
			fi
		}
		sed -n 's/^fuzz: .*\(execs: [0-9]*\).*(total: \([0-9]*\)).*/ \1, inputs: \2/p' "$scratch/log" | tail -n 1 | grep . || echo
	done
done
