#!/usr/bin/env bash
# Tests the repository; setup.sh has installed what this needs.
#
#	test.sh         build, and the tests in short mode of transports, runtime and command, but the slowest
#	test.sh all     build, and all tests in short mode
#	test.sh long    lint, scripts, the race detector, the guest, arm64, fuzzing, every benchmark once, long
#	                tests, random faults
#	test.sh ci      of these what continuous integration has time for
#	test.sh soak    all transports for SOAK (1h), then all long tests and those of volumes in full
#
# What needs no quiet runs beside the rest, with the lowest priority. The last lines list the time of each
# step, what went untested and why, and the tests that passed only when run again.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

# A test that fails is run again by itself, twice at most: two shared processors can take
# seconds from it. More than this many in one run are a fault, not bad luck.
rerun_limit=3

# Not empty: only what continuous integration has time for.
ci=

need_go
native_env
scratch=$(mktemp -d)
rerun=$scratch/rerun
# What is skipped, with a line "REASON<tab>NAME" for each.
export UNTESTED=$scratch/untested
: >"$rerun"
: >"$UNTESTED"

# The tests that short mode leaves out, and those of volumes. scripts_test.sh compares them with what tests
# say when they are skipped.
long_tests='TestDocumentedCommands|TestReproduce|TestTopologies|TestAgents|TestLostHosts|TestEngines|TestBridge|TestInjectedFaults/lose-every|TestBetweenHosts|TestLink|TestLargestLoads|TestVolume|TestThousandTransfers|TestNoGrowth|TestWholeSuite|TestCalibrate'

# The tests that a newcomer's test command leaves to those of maintainers: the slowest of the command, and
# further configurations of the conformance suite.
slow_tests='^Test(RunOnGPU|Agents|PredictionOfClients|Strangers|Calibrate|Replay|TwoBuilds|Link|Network|Witness|Resume|Stack|ABKeepsItsPairs|BetweenHosts|ValuesInDeviceMemory|ConformanceOverDmabuf)'
slow_tests+='|^TestConformance$/^(immediate|read|0|dc)$|^TestConformanceOnGPU$/^fake$/^send$'

summary() {
	local status=$?
	end_beside
	if [ -n "$running" ] || [ -s "$scratch/times" ]; then
		printf '== time by step\n'
		[ ! -s "$scratch/times" ] || cat "$scratch/times"
		[ -z "$running" ] || printf '         %s\n' "$running"
		printf '%5d s  in all\n' $SECONDS
	fi
	if [ -s "$UNTESTED" ]; then
		printf '== untested, with the reasons\n' && by_reason "$UNTESTED"
	fi
	if [ -s "$rerun" ]; then
		printf '== passed only when run again; each is a fault to be found\n' && cat "$rerun"
		if [ "$(wc -l <"$rerun")" -gt "$rerun_limit" ]; then
			say "more than $rerun_limit tests had to be run again"
			[ $status != 0 ] || status=1
		fi
	fi
	rm -rf "$scratch"
	exit $status
}
trap summary EXIT

# tests PACKAGES ARGUMENTS... runs go test; lint.sh vets all packages. It never runs again a data
# race or a package that fails as a whole.
tests() {
	local packages=$1 report status=0
	report=$(mktemp -p "$scratch")
	shift
	GOFLAGS="$GOFLAGS -buildvcs=false" go tool -modfile=tools/go.mod gotestsum --format standard-quiet \
		--rerun-fails=2 --rerun-fails-max-failures=$rerun_limit --rerun-fails-run-root-test \
		--rerun-fails-abort-on-data-race --rerun-fails-report "$report" \
		--packages "$packages" -- -vet=off -timeout 30m -tags "$tags" "$@" | without_skips || status=$?
	leaves "$report" >>"$rerun"
	return $status
}

# guest runs the tests of verbs in the guest, and reads from its log what ran again there.
guest() {
	RDMA_LIMIT=600 RDMA_TRIES=$([ -n "$ci" ] && echo 0 || echo 1) scripts/test-rdma.sh
	sed -n 's/^these run again: //p' bin/rdma/guest.log 2>/dev/null | tr '|' '\n' | sed 's/^/verbs: /' >>"$rerun" || true
}

# benchmarks runs each once: one that hangs or fails is a fault. go test itself stops
# counting its -timeout before benchmarks begin, and runs one package at a time.
benchmarks() {
	local packages skipped='^$'
	# They count each instruction, and compare a set of ten thousand cells.
	[ -z "$ci" ] || skipped='^Benchmark(Instructions|DiffOfTenThousand)$'
	mapfile -t packages < <(grep -rlE '^func Benchmark' --include='*_test.go' core plugins cmd | xargs -n1 dirname | sort -u)
	timeout --kill-after 10 900 go test -vet=off -short -tags "$tags" -run '^$' -bench . -skip "$skipped" -benchtime 1x "${packages[@]/#/./}" ||
		die "benchmarks failed, or were not done in 900 seconds"
}

# packages FLAG prints the packages that only compute (with -E), or the others (with -vE), whose tests wait,
# spin or measure times.
packages() {
	go list -tags "$tags" ./core/... ./plugins/... ./cmd/transportbench/internal/... ./docs/... |
		grep "$1" '^transportbench/(core/lab/(doc|judge|store|study)|cmd/transportbench/internal|docs)(/|$)' | paste -sd' '
}

# race runs the tests of what shares memory between goroutines or threads under the race detector. test.sh
# all runs all of them without it, so this leaves out those in which it sees nothing else: of
# allocations and of system calls on one thread, of statistics, of committed results, of a simulated network on
# one goroutine, of loads that differ in data alone, of what runs in other processes or in C, and of further
# configurations of the instrument over the rings that the shm transport's tests have run.
race() {
	local shared skipped plugins=./plugins/... suite=./core/transporttest/...
	if [ -n "$ci" ]; then
		# These mostly call libraries, in C or of their own tests, or test the suite itself.
		plugins=$(go list -tags "$tags" ./plugins/... | grep -vE '/(grpc|ofi|ucxam)$' | paste -sd' ')
		suite=
	fi
	# shellcheck disable=SC2086 # lists of packages
	shared=$(go list -tags "$tags" ./core/fabric/... ./core/lab/judge/compare ./core/lab/store/set ./core/lab/experiment/runner \
		./core/lab/experiment ./core/lab/doc/report/serve ./core/plugin/... ./core/runtime/{client,daemon,loop,rank} $suite $plugins | paste -sd' ')
	skipped=$(paste -sd'|' <<-'TESTS'
		^Test(MeasuredLoop|Mesh)DoesNotAllocate$
		^TestConformance/^alloc$
		^TestConformance/.*/^alloc$
		^TestSyscalls$
		^TestIntervalsBelongToTheVerdicts$
		^TestWindowOfAStarvedDaemon$
		^TestMesh$/./^(one_in_flight|large_values|all_operations|a_pattern|sink)$
		^TestClientServer$/^(zipfian|empty_values|one_key|writes_only|lookups_and_inserts|some_checksums|echo_of_sizes_from_0|sink,_some_checksums)$
		^TestNetwork(Faults|RateIsEnforced|Incast|Star|Large)$
		^Test(EqualTransportsAreNotToldApart|InterleavedEqualSides|UnequallyDrawnStatesMakeNoDifference)$
		^Test(ShiftOfTooFew|ShiftWithinStates|MinEffectIsTheLimitOfTheTest)$
		^TestResultSizeCoversCommittedResults$
		^Test(Traffic|KindsOfCalls|Delegation|Storage|StorageFits)$
		^Test(ControlKeepsAlpha|RunsOfCommittedSets|PackedSets|SetsOfSchema1)$
		^Test(UDPBetweenHosts|PeerProcessIsKilled|WrongKernelsAreDetected)$
		^TestConformanceSlow$/^(times|bimodal|short_delay|exponential|delay|rate)$
	TESTS
	)
	# Further configurations of what the other tests run, and tests of judgements.
	[ -z "$ci" ] || skipped+='|^TestConformance$/^(immediate|read|0)$|^TestConformanceOnGPU$/^fake$/^send$|^TestValuesInDeviceMemory$|DoesNotAllocate$|^TestOverhead$|^TestChecksFail$|^TestManyPairsAlone$'
	tests "$shared" -race -short -skip "$skipped"
}

# plain_cgo runs the conformance suite over libraries in C that are called as decision 0030 rejects, so that
# this still works on the day that it has to.
plain_cgo() {
	[ -n "$tags" ] || return 0
	local tags=$tags,plaincgo
	tests "./plugins/ofi ./plugins/ucxam" -short -run '^TestConformance$/^(shm|posix)$'
}

# faults inflicts random schedules on runs. One that fails is never run again by chance: the seed
# that it prints replays it.
faults() {
	FAULTTIME=${FAULTTIME:-10m} go test -tags "$tags" -count=1 -timeout 24h -run '^TestFaults$' ./cmd/transportbench
}

# kubernetes decodes the manifests in docs as the API server does.
kubernetes() {
	GOPROXY=off go -C tools/kubernetes list -deps -test . >/dev/null 2>&1 ||
		{ untested "docs/kubernetes" "the modules of tools/kubernetes cannot be downloaded" && return; }
	go -C tools/kubernetes test .
}

# release builds the last commit twice and compares.
release() {
	[ "${RELEASE_TEST:-1}" != 0 ] || { untested "the release" "RELEASE_TEST=0; make release builds it twice, with empty caches" && return; }
	[[ $(revision) != *+modified ]] || { untested "the release" "the tree differs from its commit" && return; }
	UNRELEASED=1 scripts/release.sh
}

# long_tests_step runs the tests that short mode leaves out, but for cases like others, which are left to soak.
# Those that wait for hosts run four at a time.
long_tests_step() {
	local left='TestAgents/(mesh|shm_is|two_on|an_agent_is_killed_before|the_coordinator)|TestTopologies/.*/shm'
	left+='|TestTopologies/.*/.*/(plain|many)|TestBetweenHosts/(erpc-large|tcpx-small)|TestLinkDown/tcpx/window'
	left+='|TestLinkFlaps/erpc|TestLargestLoads/.*/(shm|copyrpc)'
	[ -z "$ci" ] || left+='|TestLargestLoads|TestBridge|TestCalibrate|TestThousandTransfers|TestVolume|TestReproduce/(benchkv|kvstore|shm|tcpx)'
	ERPC_TEST_VOLUME=50000 TCPX_TEST_VOLUME=0-20 tests \
		"./cmd/transportbench ./plugins/erpc ./plugins/ofi ./plugins/tcpx/internal/conn ./plugins/ucxam" -run "$long_tests" -parallel 4 \
		-skip "$left"
}

# soak runs every transport for a long time: what the processes hold, and latency, must not drift.
soak() {
	SOAK_TEST_TIME=${SOAK:-1h} go test -tags "$tags" -count=1 -timeout 0 -v -run '^TestSoak$' ./cmd/transportbench
}

# all_long_tests runs the long tests of which "long" and "ci" run a part, and those of volumes in full.
all_long_tests() {
	ERPC_TEST_VOLUME=4000000 TCPX_TEST_VOLUME=1 REPORT_TEST_VOLUME=5000 LINK_TEST_RUNS=20 tests \
		"./cmd/transportbench ./core/lab/doc/report ./plugins/erpc ./plugins/ofi ./plugins/tcpx/internal/conn ./plugins/ucxam" \
		-p 1 -timeout 4h -run "$long_tests|^TestInjectedFaults$"
}

# small_steps runs what needs processors but no quiet: it goes beside steps that often wait.
small_steps() {
	for script in scripts/*_test.sh; do "$script"; done
	scripts/lint.sh
	benchmarks
	scripts/fuzz.sh "${FUZZTIME:-3s}"
	scripts/test-arm64.sh
}

case ${1:-} in
'')
	say "this takes about 4 minutes on two processors, and 8 with empty build caches"
	step "build" scripts/build.sh
	step "command" tests ./cmd/transportbench -short -skip "$slow_tests"
	step "packages" tests "./core/base/... ./core/fabric/... ./core/runtime/... ./core/transport/... ./plugins/..." \
		-short -skip "$slow_tests"
	;;
all)
	step "build" scripts/build.sh
	beside "results, statistics and documents" tests "$(packages -E)" -short
	# One package at a time where real runs spin on every processor.
	step "command" tests ./cmd/transportbench -short -p 1
	step "packages" tests "$(packages -vE)" -short
	join
	;;
long | ci)
	if [ "$1" = ci ]; then
		ci=1
		export FUZZTIME=${FUZZTIME:-1s} FAULTTIME=${FAULTTIME:-15s} LINK_TEST_RUNS=0 ARM64_TESTS=0 RELEASE_TEST=0
	fi
	step "build" scripts/build.sh
	beside "scripts, lint, benchmarks, fuzz, arm64" small_steps
	step "verbs" guest
	step "faults" faults
	step "kubernetes" kubernetes
	step "release" release
	step "long tests" long_tests_step
	CGO_ENABLED=1 step "race" race
	step "plain cgo" plain_cgo
	join
	;;
soak)
	step "build" scripts/build.sh
	step "soak" soak
	step "long tests" all_long_tests
	;;
*) die "usage: test.sh [all|long|ci|soak]" ;;
esac
