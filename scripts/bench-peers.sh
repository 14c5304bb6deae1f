#!/usr/bin/env bash
# Compares transports with the benchmarks that come with their libraries, in
# turn and on the same processors: every BenchmarkPeers of a plugin. One whose
# peer is not installed says so and is skipped.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
have sockperf && have iperf3 && have ucx_perftest ||
	install_packages "transports are compared with them" sockperf iperf3 ucx-utils ||
	say "going on with those that are there"
native_env
mapfile -t packages < <(grep -rlE '^func BenchmarkPeers\(' --include='*_test.go' plugins | xargs -r -n1 dirname | sort -u)
for package in "${packages[@]}"; do
	go test -v -tags "$tags" -run '^$' -bench '^BenchmarkPeers$' -benchtime 1x "./$package"
done
