#!/usr/bin/env bash
# Runs the tests that test-rdma.sh built, on an RDMA device of this machine.
#
#	rdma-tests.sh DIRECTORY DEVICE [PEER LINK]
#
# PEER is a device that the first reaches over a wire, LINK a program that can "cut" and
# "mend" this wire and take the first one's interface "down" and "up". RDMA_TRIES is how often
# to take each figure (2 or 3): 1 only shows that it can be taken, of one microbenchmark for all,
# because the conformance suite has run each of them, and of one impairment of a network; 0 takes none.
set -euo pipefail
work=$1
export RDMA_TEST_DEVICE=$2 RDMA_TEST_PEER=${3:-} RDMA_TEST_LINK=${4:-}
cd "$(dirname "$0")/.."
results=$(mktemp -d)/results
trap 'rm -rf "$(dirname "$results")"' EXIT

step() { printf '== %s (%ss)\n' "$*" "$SECONDS"; }

# tests FOLDER BINARY FLAGS... runs its tests of verbs, or of what pattern says, there. As in test.sh, those that fail run
# again by themselves, twice at most, and are named: an emulated guest on two shared
# processors can be without them for seconds.
tests() {
	local run=${pattern:-Verbs} log failed again
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
tests core/fabric/rdma/devices "$work/devices.test"
step "the path: what sysfs says and the ports count"
tests core/base/carrier "$work/carrier.test"
step "networks: netem, and the relay beside it"
pattern=Network tests core/lab/experiment/network "$work/network.test"
measured=
if [[ ${RDMA_TRIES:-} = [01] ]]; then measured=/delay; fi
pattern="Network(Measured|Killed)$measured" CI_PREBUILT=1 tests cmd/transportbench "$work/transportbench.test"
step "datagrams over UD: conformance"
tests core/fabric/datagram "$work/datagram.test"
step "copyrpc: conformance, processes, faults"
tests plugins/copyrpc "$work/copyrpc.test"
step "copyrpc over plain cgo: conformance of the data path"
pattern='VerbsConformance/^(call|flow|poll)' tests plugins/copyrpc "$work/copyrpc-plain.test" -test.short
# Those of killed processes mostly sleep until a peer is declared dead.
step "erpc over plain cgo: conformance, and processes at the same time"
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

if [ "${RDMA_TRIES:-}" = 0 ]; then
	step "done"
	exit
fi

# Our microbenchmarks, copyrpc and erpc, all with perftest as their witness. Ratios are what to look
# at, and nothing is asserted: the guest is emulated.
step "perftest and our microbenchmarks"

# measure takes figures of the device with perftest beside them, which has to know the command lines.
# In a guest without processors a program may run out of time, so it has three tries.
measure() { # ARGUMENTS...
	local log=$results.log
	for _ in 1 2 3; do
		rm -rf "$results"
		timeout 300 "$work/transportbench" "$@" --plugin-dir "$work" --set provider=verbs --set device="$RDMA_TEST_DEVICE" \
			--out "$results" 2>"$log" | cat && ! grep -q 'no witness' "$log" && return
		cat "$log"
	done
	return 1
}

if [ "${RDMA_TRIES:-}" = 1 ]; then
	measure micro copyrpc --duration 100ms write-latency fetch-add-latency write-pairs relaxed-ordering dc-write-latency
	repeats=1
else
	measure micro copyrpc --duration 200ms
	repeats=6
fi
measure sweep --transport copyrpc,erpc --profile echo --in-flight 1,16 --witness --repeats $repeats --duration 200ms \
	--columns latency_p50,floor_ratio,witness,witness_ratio,witness_rate,witness_time_ratio
step "done"
