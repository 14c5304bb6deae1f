#!/usr/bin/env bash
# Builds everything for arm64 and runs tests of packages without cgo on an emulated processor.
#
# Programs and plugins are built without cgo. Packages with cgo are compiled, but not linked, because the
# libraries of this machine are of another architecture. The emulation, qemu-user, finds what does not
# compile or run: assembly, layouts, system calls. It cannot find a missing barrier, because this
# processor keeps stores in order, and it says nothing about speed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
export GOARCH=arm64

CGO_ENABLED=0 go build -o /dev/null ./...

if [ "${ARM64_TESTS:-1}" = 0 ]; then
	untested "tests and cgo on arm64" "ARM64_TESTS=0 asks for the build alone; make test-arm64 has them"
	exit 0
fi

tags=$(all_native_tags)
if [ -z "$tags" ]; then
	untested "cgo on arm64" "no plugin's native library is here"
elif ! have aarch64-linux-gnu-gcc; then
	untested "cgo on arm64" "gcc-aarch64-linux-gnu is not installed"
else
	CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc go build -tags "$tags" ./core/... ./plugins/...
fi

if [ "$(uname -m)" = aarch64 ]; then
	emulator=()
elif have qemu-aarch64; then
	emulator=(-exec qemu-aarch64)
else
	untested "tests on arm64" "qemu-user is not installed"
	exit 0
fi

# The packages with assembly, shared memory, clocks or layouts, and the measured loop.
packages=(./core/base/config ./core/base/cpulist ./core/base/machine ./core/base/netem ./core/base/record
	./core/fabric/control ./core/fabric/floor ./core/fabric/doublemap ./core/fabric/pow2 ./core/fabric/rdma ./core/fabric/rdma/devices ./core/fabric/rdma/soft
	./core/fabric/shm/... ./core/fabric/spin ./core/runtime/kv ./core/runtime/workload ./core/transport)
skipped=()
if [ ${#emulator[@]} -gt 0 ]; then
	processes='^Test(BetweenProcesses|Killed.*|Lookup|Transfer|SPSC|Mesh)$'
	memory='^TestPopulate$/^madvise$|^TestSoftConformance$/^device$/^registered-memory$'
	untested "tests with several processes, on arm64" "a program under qemu-user cannot start another"
	untested "populated memory, on arm64" "qemu-user ignores madvise"
	skipped=(-skip "$processes|$memory")
fi
CGO_ENABLED=0 go test -vet=off -short -count=1 "${emulator[@]}" "${skipped[@]}" "${packages[@]}"
