#!/usr/bin/env bash
# Measures what agents cost: a rank for each, all on this machine, and all connected to each other or,
# after "ring", each to the next one. It prints a line of JSON for each number of agents, 2, 8, 32 and
# 64 or those that are given. docs/hosts.md has a table of them.
#
#	bench-hosts.sh [ring] [AGENTS...]
#
# "setup" is from the result, in milliseconds. "coordinator" is from /proc, when the ranks were to be
# launched, when they were connected, and when the window began: "cpu_ms" of its processor time,
# "written" bytes, and "memory_kib".
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

have jq || install_packages "jq prints the figures" jq
[ -x bin/transportbench ] || scripts/build.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# sample PID WHEN prints what a process has used.
sample() {
	local stat tick
	stat=$(cat "/proc/$1/stat")
	read -ra stat <<<"${stat##*) }"
	tick=$(getconf CLK_TCK)
	jq -nc --arg when "$2" --argjson cpu $(((stat[11] + stat[12]) * 1000 / tick)) \
		--argjson written "$(awk '/^wchar/ { print $2 }' "/proc/$1/io")" \
		--argjson memory "$(awk '/^VmRSS/ { print $2 }' "/proc/$1/status")" \
		'{when: $when, cpu_ms: $cpu, written: $written, memory_kib: $memory}'
}

ring=""
[ "${1:-}" != ring ] || { ring=1 && shift; }
[ $# -gt 0 ] || set -- 2 8 32 64
for agents; do
	mkfifo "$scratch/log"
	load=(--topology mesh-direct --ranks "$agents")
	if [ "$ring" ]; then
		awk -v n="$agents" 'BEGIN { for (r = 0; r < n; r++) for (c = 0; c < n; c++)
			printf "%d%s", c == (r + 1) % n, c < n - 1 ? "," : "\n" }' >"$scratch/ring.csv"
		load=(--traffic "matrix:$scratch/ring.csv")
	fi
	# shellcheck disable=SC2016 # the engine's shell expands them
	bin/transportbench run --launch "sh -c 'for i in \$(seq $agents); do \"\$0\" \"\$@\" & done; wait'" --agents "$agents" \
		--share-machine --transport tcpx "${load[@]}" --repeats 1 --duration 200ms \
		--warmup 20ms --json --out "$scratch/results" >"$scratch/result.json" 2>"$scratch/log" &
	coordinator=$!
	: >"$scratch/samples"
	: >"$scratch/said"
	while read -r line; do
		echo "$line" >>"$scratch/said"
		case $line in
		*": launch") sample "$coordinator" launch ;;
		*": warmup") sample "$coordinator" connected ;;
		*": repeat 1 of 1") sample "$coordinator" window ;;
		esac >>"$scratch/samples"
	done <"$scratch/log"
	status=0
	wait "$coordinator" || status=$?
	case $status in
	0 | 4) ;; # checks of the rate may fail where ranks share processors
	*) die "$agents agents: $(tail -n 3 "$scratch/said")" ;;
	esac
	jq -c --slurpfile coordinator "$scratch/samples" --argjson agents "$agents" --arg ring "$ring" --argjson bytes "$(wc -c <"$scratch/result.json")" \
		'{agents: $agents, ring: ($ring != ""), version: .tool.version, revision: .tool.revision, started_at: .started_at, cpus: .environment.identity.cpus,
		setup: (.setup | del(.ranks)), result_bytes: $bytes, coordinator: $coordinator}' "$scratch/result.json"
	rm "$scratch/log"
done
