#!/usr/bin/env bash
# Runs the tests that test-rdma.sh built, on an RDMA device of this machine.
#
#	rdma-tests.sh DIRECTORY DEVICE [PEER LINK]
#
# PEER is a device that the first reaches over a wire, LINK a program that can "cut" and
# "mend" this wire and take the first one's interface "down" and "up". RDMA_TRIES is how often
# to take each figure (2 or 3): 1 only shows that it can be taken, of one microbenchmark for all,
# because the conformance suite has run each of them.
set -euo pipefail
work=$1
export RDMA_TEST_DEVICE=$2 RDMA_TEST_PEER=${3:-} RDMA_TEST_LINK=${4:-}
cd "$(dirname "$0")/.."
results=$(mktemp -d)/results
trap 'rm -rf "$(dirname "$results")"' EXIT

step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }

# tests FOLDER BINARY FLAGS... runs its tests of verbs there. As in test.sh, those that fail run
# again by themselves, twice at most, and are named: an emulated guest on two shared
# processors can be without them for seconds.
tests() {
	local run='Verbs' log failed again
	log=$(mktemp -p "$(dirname "$results")")
	for again in 1 2 ''; do
		# What passed within a test is left out of what is shown.
		(cd "$1" && "${@:2}" -test.v -test.run "$run" -test.timeout 20m) 2>&1 | tee "$log" | sed -u '/^=== /d; /^ *    --- PASS/d' && return
		failed=$(sed -n 's/^--- FAIL: \([^ ]*\) .*/\1/p' "$log" | sort -u | paste -sd'|')
		# What fails as a whole, or in too many places, is no matter of time.
		[ -n "$failed" ] && [ -n "$again" ] && [ "$(tr '|' '\n' <<<"$failed" | wc -l)" -le 5 ] || return 1
		run="^($failed)\$"
		printf 'these run again: %s\n' "$failed"
	done
}

step "verbs device: conformance"
tests core/fabric/rdma "$work/rdma.test"
step "the path: what sysfs says and the ports count"
tests core/base/carrier "$work/carrier.test"
step "datagrams over UD: conformance"
tests core/fabric/datagram "$work/datagram.test"
step "copyrpc: conformance, processes, faults"
tests plugins/copyrpc "$work/copyrpc.test"
# Those of killed processes mostly sleep until a peer is declared dead.
step "erpc: conformance, and processes at the same time"
tests plugins/erpc "$work/erpc.test" -test.skip=Killed &
conformance=$!
status=0
tests plugins/erpc "$work/erpc.test" -test.skip=Conformance || status=1
wait "$conformance" || status=1
[ $status = 0 ]
if [ -x "$work/ofi.test" ]; then
	step "libfabric: conformance, short"
	tests plugins/ofi "$work/ofi.test" -test.short
fi

# Our microbenchmarks and round trips of copyrpc and erpc beside perftest. Ratios are what
# to look at, and nothing is asserted: the guest is emulated.
step "perftest and our microbenchmarks"

# gid_index prints which GID of the device is of RoCE version 2 and an IPv4 address, as
# copyrpc takes it; there is none on InfiniBand.
gid_index() {
	local port=/sys/class/infiniband/$RDMA_TEST_DEVICE/ports/1 index
	for index in {0..15}; do
		if grep -qs 'RoCE v2' "$port/gid_attrs/types/$index" && grep -qs '^0000:0000:0000:0000:0000:ffff:' "$port/gids/$index"; then
			echo "$index"
			return
		fi
	done
}
gid=$(gid_index)
quick=
repeats=6
if [ "${RDMA_TRIES:-}" = 1 ]; then quick=1 repeats=2; fi

# perftest PROGRAM ARGUMENTS... prints its typical time in nanoseconds. Both its sides
# are here, and meet over the loopback interface.
perftest() {
	local server typical
	set -- "$@" -d "$RDMA_TEST_DEVICE" ${gid:+-x "$gid"} -F -s 32 -n 2000
	"$@" >/dev/null 2>&1 &
	server=$!
	sleep 1
	typical=$(timeout 60 "$@" 127.0.0.1 2>/dev/null | awk '$1 == 32 { print $5 * 1000 }') || true
	kill "$server" 2>/dev/null || true
	wait "$server" || true
	echo "${typical:-0}"
}

# again prints what a command prints, of the first of three tries in which it prints
# anything: under emulation a plugin may take longer to start than the command waits.
again() {
	local output
	for _ in 1 2 3; do
		output=$("$@") || true
		[ "${output:-0}" = 0 ] || break
	done
	echo "${output:-0}"
}

# micro takes microbenchmarks of the device, each with perftest beside it, which has to know the command
# lines. In a guest without processors a program may run out of time, so it has three tries.
micro() { # DURATION NAMES...
	local duration=$1
	shift
	for _ in 1 2 3; do
		timeout 300 "$work/transportbench" micro copyrpc --plugin-dir "$work" --set provider=verbs --set device="$RDMA_TEST_DEVICE" \
			--duration "$duration" "$@" 2>"$results.log" | cat && ! grep -q 'no witness' "$results.log" && return
		cat "$results.log"
	done
	return 1
}

# round_trip prints the least median of some short windows: between the host's processors
# a line takes four times as long in some seconds as in others, and a window is in one kind.
round_trip() { # TRANSPORT
	rm -rf "$results"
	if ! timeout 60 "$work/transportbench" run --transport "$1" --plugin-dir "$work" --set provider=verbs --set device="$RDMA_TEST_DEVICE" --in-flight 1 \
		--duration 200ms --warmup 500ms --repeats "$repeats" --out "$results" >/dev/null 2>"$results.log"; then
		# It may have measured, and a check have failed: that is no figure either.
		printf '%s round trip: %s\n' "$1" "$(tail -n 1 "$results.log")" >&2
		return 1
	fi
	"$work/transportbench" export --format csv "$results" | awk -F, '
		NR == 1 { for (i = 1; i <= NF; i++) if ($i ~ /^latency_p50/) column = i; next }
		column && $column + 0 > 0 && (!least || $column + 0 < least) { least = $column + 0 }
		END { if (least) print least }'
}

# least prints the least of some tries of a command and the least of those of another, in
# turn, so a disturbance hits both equally often.
least() { # TRIES COMMAND -- COMMAND
	local tries=${RDMA_TRIES:-$1} first=() theirs='' ours=''
	shift
	while [ "$1" != -- ]; do
		first+=("$1")
		shift
	done
	shift
	for ((; tries > 0; tries--)); do
		ours+=" $(again "${first[@]}")"
		theirs+=" $(again "$@")"
	done
	printf '%s\n%s\n' "$ours" "$theirs" | awk '{ m = 0; for (i = 1; i <= NF; i++) if ($i > 0 && (!m || $i < m)) m = $i; printf "%s ", m }'
}

# compare prints a line of both. What never ran is said, since a plugin that cannot is no
# matter of time, and 0 ns would look like one.
compare() { # NAME OURS TIMES PERFTEST THEIRS
	awk -v name="$1" -v ours="$2" -v times="$3" -v perftest="$4" -v theirs="$5" '
		function shown(ns) { return (ns > 0) ? sprintf("%.0f ns", ns) : "did not run" }
		BEGIN {
			theirs *= times
			ratio = (ours > 0 && theirs > 0) ? sprintf("%.2f", ours / theirs) : "unknown"
			printf "%-18s %11s   %5s %-20s %11s   ratio %s\n", name, shown(ours), (times > 1) ? "twice" : "", perftest, shown(theirs), ratio
		}'
}

trip() { # TRANSPORT PERFTEST ARGUMENTS...
	local name=$1 ours theirs
	shift
	read -r ours theirs <<<"$(least 3 round_trip "$name" -- perftest "$@")"
	compare "$name round trip" "${ours:-0}" 2 "$*" "${theirs:-0}"
}

if [ -n "$quick" ]; then
	micro 100ms write-latency fetch-add-latency write-pairs relaxed-ordering dc-write-latency
else
	micro 200ms
fi
trip copyrpc ib_write_lat
trip erpc ib_send_lat -c UD
step "done"
