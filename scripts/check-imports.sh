#!/usr/bin/env bash
# The import rules that the linter cannot see: it reads the files of one
# platform and one set of build tags, and these rules hold for all files.
#
#   - only *_unsafe.go files import unsafe
#   - only the internal package of a native library imports "C"
#   - no plugin imports another
#   - only core/plugin imports go-plugin, and only core/plugin and plugins/grpc import gRPC
#   - of the host, only the command's main function has standard output and standard error, because
#     what else is written to them goes through core/base/printable
#   - of the host, only core/base/files writes files, makes directories and removes by name
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

bad=0
complain() {
	printf '%s\n' "$1" >&2
	bad=1
}

# importers PATH prints the files that import exactly PATH, in either form of
# import declaration.
importers() {
	grep -rlE --include='*.go' "^(import)?[[:space:]]*([A-Za-z0-9_.]+[[:space:]]+)?\"$1\"" \
		core plugins cmd 2>/dev/null || true
}

for file in $(importers unsafe); do
	case $file in
	*_unsafe.go | *_unsafe_test.go) ;;
	*) complain "$file: imports unsafe; move what needs it to a file named *_unsafe.go" ;;
	esac
done

for file in $(importers C); do
	case $file in
	plugins/*/internal/* | core/fabric/*/internal/*) ;;
	*) complain "$file: imports \"C\"; native libraries are bound in plugins/NAME/internal or core/fabric/NAME/internal, and called through core/fabric/ccall" ;;
	esac
done

for file in $(importers 'transportbench/plugins/[^"]*'); do
	case $file in plugins/*) ;; *) continue ;; esac
	own=$(cut -d/ -f1-2 <<<"$file")
	if grep -E '"transportbench/plugins/' "$file" | grep -qvE "\"transportbench/$own(/[^\"]*)?\""; then
		complain "$file: imports another plugin; what two share belongs to core/fabric"
	fi
done

for file in $(importers 'github.com/hashicorp/go-plugin(/[^"]*)?'); do
	case $file in core/plugin/*) ;; *) complain "$file: imports go-plugin; only core/plugin knows it" ;; esac
done

for file in $(importers 'google.golang.org/grpc(/[^"]*)?'); do
	case $file in
	core/plugin/* | plugins/grpc/*) ;;
	*) complain "$file: imports gRPC; only core/plugin and the transport plugins/grpc know it" ;;
	esac
done

for file in $(grep -rlE --include='*.go' --exclude='*_test.go' 'os\.Std(out|err)\b|fmt\.Print' \
	cmd/transportbench core/base core/lab core/plugin/host core/plugin/internal 2>/dev/null || true); do
	case $file in
	cmd/transportbench/main.go) ;;
	*/clitest/* | */doctest/* | */historytest/* | */schematest/*) ;; # packages for tests
	*) complain "$file: writes to standard output or standard error; take an io.Writer" ;;
	esac
done

for file in $(grep -rlE --include='*.go' --exclude='*_test.go' \
	'os\.(WriteFile|Create|CreateTemp|Rename|OpenFile|Truncate|Link|Symlink|Mkdir(All|Temp)?|Remove(All)?)\b' \
	cmd core/base core/lab core/plugin/host 2>/dev/null || true); do
	case $file in
	core/base/files/*) ;;
	*/clitest/* | */doctest/* | */historytest/* | */schematest/*) ;; # packages for tests
	core/base/machine/thread.go | core/lab/judge/doctor/doctor.go) ;; # files of /proc
	core/lab/store/result/lock.go) ;; # a lock, into which nothing is written
	cmd/transportbench/internal/measure/c2c.go | core/plugin/host/rundir.go) ;; # private directories
	core/plugin/host/discover.go) ;; # only reads
	*) complain "$file: writes, makes or removes a file by name; core/base/files does it alike for all kinds of files" ;;
	esac
done

exit $bad
