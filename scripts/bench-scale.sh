#!/usr/bin/env bash
# Measures what sweep, diff and report take as cells and results get more. It prints a line of JSON for
# each command and number, 10, 100, 1000 and 10000 or those that are given; sweep measures at most
# SWEEP_CELLS cells (1000), because each takes about 0.1 s. docs/performance.md has a table of them.
#
#	bench-scale.sh [NUMBER...]
#
# The cells of the sweep are of the calibration transport, with one window of 1 ms each. diff and report
# read copies of one of its results that differ in the number of keys, each in a file of its own; diff
# reads them twice, as both sides. "cpu_ms" includes that of the plugins, and "memory_kib" is the most that one
# process had.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

have jq || install_packages "jq prints the figures" jq
[ -x /usr/bin/time ] || install_packages "time measures the commands" time
[ -x bin/transportbench ] || scripts/build.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# measured NUMBER COMMAND... runs a command of transportbench and prints what it took.
measured() {
	local number=$1 status=0
	shift
	/usr/bin/time -q -o "$scratch/took" -f '%e %U %S %M' bin/transportbench "$@" >"$scratch/log" 2>&1 || status=$?
	case $status in
	0 | 4 | 6) ;; # checks may fail in such short windows, which are too few for verdicts
	*) die "transportbench $1 of $number: $(tail -n 1 "$scratch/log")" ;;
	esac
	jq -nc --arg command "$1" --argjson number "$number" --argjson version "$(bin/transportbench version --json)" \
		--slurpfile took "$scratch/took" \
		'{$command, $number, version: $version.version, revision: $version.revision,
		ms: ($took[0] * 1000 | round), cpu_ms: (($took[1] + $took[2]) * 1000 | round), memory_kib: $took[3]}'
}

[ $# -gt 0 ] || set -- 10 100 1000 10000
for number; do
	[ "$number" -gt "${SWEEP_CELLS:-1000}" ] ||
		measured "$number" sweep --transport calibration --profile echo --duration 1ms --warmup 1ms --repeats 1 \
			--keys "$(seq -s, "$number")" --out "$scratch/sweep-$number"
done
result=$(find "$scratch"/sweep-*/cells -name '*.json' -print -quit)
for number; do
	mkdir "$scratch/results"
	jq -c --argjson number "$number" 'range($number) as $i | .config.keys = $i + 1' "$result" |
		split -l 1 -a 5 -d --additional-suffix .json - "$scratch/results/"
	measured "$number" diff "$scratch/results" "$scratch/results"
	measured "$number" report "$scratch/results" --output "$scratch/report.html"
	rm -r "$scratch/results"
done
