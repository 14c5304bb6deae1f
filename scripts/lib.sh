# shellcheck shell=bash
# Functions that the other scripts share. Source it; it changes to the
# repository's root.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# One set of compiled packages then serves builds, tests and fuzzing, in every checkout.
export GOFLAGS="-trimpath${GOFLAGS:+ $GOFLAGS}"

say() { printf 'transportbench: %s\n' "$*" >&2; }

die() {
	say "$@"
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

have_all() {
	local program
	for program; do have "$program" || return; done
}

# revision prints the commit that the build is made from, with "+modified"
# behind it where the tree differs.
revision() {
	local commit
	if ! have git || ! commit=$(git rev-parse --verify --quiet HEAD 2>/dev/null); then
		echo unknown
	elif [ -n "$(git status --porcelain -- core plugins cmd go.mod go.sum)" ]; then
		echo "$commit+modified"
	else
		echo "$commit"
	fi
}

# commit_time prints SOURCE_DATE_EPOCH, else when the commit was made, else the time, in seconds since 1970.
commit_time() { echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}"; }

# as_root runs a command with the rights to install packages, and never waits
# for a password where no user can type it.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif ! have sudo; then
		say "not root, and there is no sudo; run as root: $*"
		return 1
	elif [ -n "${CI:-}" ] || ! [ -t 0 ]; then
		sudo -n "$@"
	else
		sudo "$@"
	fi
}

# install_packages WHY PACKAGE... installs Debian packages.
install_packages() {
	local why=$1
	shift
	if ! have apt-get; then
		say "$why, and this system has no apt: install what Debian calls $*"
		return 1
	fi
	say "installing $* with apt: $why"
	local quiet=(-qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120)
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update "${quiet[@]}" >&2 ||
		say "apt-get update failed; trying with the package lists at hand"
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y --no-install-recommends "${quiet[@]}" "$@" >&2 || {
		say "apt could not install $*; install it by hand, then try again"
		return 1
	}
}

# need_go fails where Go is missing or cannot build this module.
need_go() {
	have go || die "Go is not installed: see https://go.dev/doc/install"
	local wanted complaint
	wanted=$(sed -n 's/^go //p' go.mod)
	complaint=$(go list -m 2>&1 >/dev/null) ||
		die "this module needs Go $wanted or later: ${complaint:-$(go version)}"
}

# The step that runs, for the summary of test.sh if it failed; the process of the step that runs beside it; and
# a directory, which the script makes, for their output and times.
running='' beside_pid='' scratch=''

# step NAME COMMAND... runs a step and notes how long it took.
step() {
	local name=$1 began=$SECONDS
	shift
	printf '== %s\n' "$name"
	running="$name: failed"
	"$@"
	running=
	printf '%5d s  %s\n' $((SECONDS - began)) "$name" >>"$scratch/times"
}

# beside NAME COMMAND... starts a step that runs beside the next ones, until join. Its output comes when it
# has ended. It has the lowest priority, so that it takes the processors only while the others wait.
beside() {
	beside_name=$1
	shift
	set -m # its processes become a group, for end_beside
	{
		began=$SECONDS
		renice -n 19 -p "$BASHPID" >/dev/null
		"$@"
		printf '%5d s  %s, beside others\n' $((SECONDS - began)) "$beside_name" >>"$scratch/times"
	} >"$scratch/beside" 2>&1 &
	beside_pid=$!
	set +m
}

# join waits for the step that runs beside others, prints its output, and fails if the step did.
join() {
	local status=0
	wait "$beside_pid" || status=$?
	beside_pid=
	printf '== %s\n' "$beside_name"
	cat "$scratch/beside"
	[ $status = 0 ] || running="$beside_name: failed"
	return $status
}

# end_beside interrupts the step that runs beside one that failed.
end_beside() {
	local failed=$running
	[ -n "$beside_pid" ] || return 0
	kill -TERM -- "-$beside_pid" 2>/dev/null || true
	join || say "$beside_name was interrupted, because another step failed"
	running=$failed
}

# leaves prints the lines of a report of gotestsum, except of tests whose subtests are in it: a
# test fails with its subtest.
leaves() {
	awk -F': ' '
		NF { lines[++n] = $0; names[n] = name = $1; while (sub(/\/[^\/]*$/, "", name)) parents[name] }
		END { for (i = 1; i <= n; i++) if (!(names[i] in parents)) print lines[i] }' "$1"
}

# left_out PATTERN FILE... prints the tests in FILEs that short mode skips for the long tests, but that go test
# -run PATTERN would not run either.
left_out() {
	local name pattern
	pattern=$(sed -E 's,/[^|]*,,g' <<<"$1") # without patterns of subtests
	shift
	awk '
		/^func / { test = ""; if (match($2, /^Test[A-Za-z0-9_]+/)) test = substr($2, 1, RLENGTH) }
		/inLongTests\(|test\.sh long|make test-long/ { if (test) print test }' "$@" | sort -u |
		while read -r name; do [[ $name =~ $pattern ]] || echo "$name"; done
}

# untested says that something goes untested, and notes it for the summary of test.sh.
untested() { # NAME REASON
	say "$1 goes untested: $2"
	[ -z "${UNTESTED:-}" ] || printf '%s\t%s\n' "$2" "$1" >>"$UNTESTED"
}

# without_skips passes on what gotestsum prints, except for its list of skipped tests, which it
# adds to the file UNTESTED.
without_skips() {
	awk -v file="$UNTESTED" '
		function note(reason) { if (name != "") print reason "\t" name >>file; name = "" }
		/^=== Skipped$/ { skips = 1; next }
		/^(DONE|=== (Failed|Errors)$)/ { note("no reason"); skips = 0 }
		!skips { print; fflush(); next }
		/^=== SKIP: / { note("no reason"); name = $3 " " $4; next }
		NF { sub(/^ *[^ ]+\.go:[0-9]+: /, ""); note($0) }'
}

# by_reason prints a file of reasons and names: each reason once, how often it is there, and its first name.
by_reason() {
	sort -u "$1" | awk -F'\t' '
		!($1 in times) { reasons[++n] = $1; first[$1] = $2 }
		{ times[$1]++ }
		END {
			for (i = 1; i <= n; i++) {
				reason = reasons[i]
				more = times[reason] > 1 ? " and " times[reason] - 1 " more" : ""
				printf "%5d  %s%s: %s\n", times[reason], first[reason], more, reason
			}
		}'
}

# console_text passes on what a guest's console says, without the escape sequences of its firmware:
# control characters, which in UTF-8 may have two bytes, become question marks.
console_text() {
	LC_ALL=C sed -u -e 's/\r$//' -e 's/[\x00-\x08\x0b-\x1f\x7f]/?/g' -e 's/\xc2[\x80-\x9f]/?/g'
}
