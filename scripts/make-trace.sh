#!/usr/bin/env bash
# Writes a synthetic trace of requests to standard output, as CSV. Equal arguments give equal traces.
#
#	make-trace.sh [REQUESTS [RATE [SIZE]]]   1000000 requests, 100000 a second, values of 32 bytes
#
# Arrivals are independent (Poisson), keys uniform over 1024, and half of the requests are reads: the
# load of profile kv with --rate RATE. SIZE may be a range such as 64-4096.
set -euo pipefail

exec awk -v requests="${1:-1000000}" -v rate="${2:-100000}" -v size="${3:-32}" 'BEGIN {
	srand(1)
	split(size, bound, "-")
	if (bound[2] == "") bound[2] = bound[1]
	print "time,op,key,size"
	for (i = 0; i < requests; i++) {
		at += -log(1 - rand()) / rate
		printf "%.9f,%s,k%d,%d\n", at, rand() < 0.5 ? "read" : "write", int(rand() * 1024),
			bound[1] + int(rand() * (bound[2] - bound[1] + 1))
	}
}'
