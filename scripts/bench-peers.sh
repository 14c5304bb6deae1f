#!/usr/bin/env bash
# Compares transports with the benchmarks that people of the field would run by hand: the sweep
# results/peers.yaml with --witness. A benchmark that is not installed is named below the table.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

scripts/setup.sh bench
have sockperf && have iperf3 && have ucx_perftest && have fi_pingpong ||
	install_packages "transports are compared with them" sockperf iperf3 ucx-utils libfabric-bin ||
	say "going on with those that are there"
scripts/build.sh
bin/transportbench sweep peers --witness "$@"
