#!/usr/bin/env bash
# Fails if a program can reach code that the database of Go's vulnerabilities lists: GOVULNDB, or else
# https://vuln.go.dev. If the database cannot be reached, it says so and passes.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/native.sh
. scripts/native.sh

need_go
native_env
database=${GOVULNDB:-https://vuln.go.dev}

govulncheck() {
	GOFLAGS="${GOFLAGS//-trimpath/} -buildvcs=false" go tool -modfile=tools/go.mod govulncheck -db "$database" "$@"
}

# reachable asks for the time of the database's last update, which takes no loading of packages.
# Without an answer govulncheck leaves the line out.
reachable() { (export -f govulncheck && export database && timeout 20 bash -c 'govulncheck -version') | grep "^DB updated: " >/dev/null; }

unreachable() {
	untested "govulncheck" "the database of vulnerabilities, $database, cannot be reached"
	exit 0
}

govulncheck -h >/dev/null 2>&1 || die "govulncheck does not run: go tool -modfile=tools/go.mod govulncheck -h"
reachable || unreachable
status=0
govulncheck -tags "$tags" ./... || status=$?
case $status in
0) ;;
3) die "a program can reach a known vulnerability; update what govulncheck names above" ;;
*)
	reachable || unreachable
	die "govulncheck failed with exit code $status"
	;;
esac
