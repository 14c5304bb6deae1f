#!/usr/bin/env bash
# Gives the Go module another path, in go.mod files, imports, linker flags, import rules and documents.
#
#	set-module-path.sh PATH     such as github.com/OWNER/transportbench
#
# Committed results keep the names that they were recorded with.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

new=${1:-}
[[ $new =~ ^[a-z0-9.-]+(/[A-Za-z0-9._~-]+)*$ ]] || die "PATH: \"$new\" is not the path of a Go module"
old=$(sed -n 's/^module //p' go.mod)
[ "$new" != "$old" ] || die "the path is $old already"
name=${old//./\\.}

# Behind a slash, as in lib/transportbench/plugins, the name is a directory's. The quoted name with nothing
# below plugins is one, too, because no package has that path.
mapfile -t files < <(grep -rlIE --exclude-dir={.git,bin,shared,results,released} "(^|[^A-Za-z0-9_./-])$name" .)
sed -Ei \
	-e "s,(^|[^A-Za-z0-9_./-])$name/((core|cmd|docs|results|tools)\b|plugins/|\\\$own),\1$new/\2,g" \
	-e "s,(pkg: )$name/plugins\$,\1$new/plugins," \
	-e "s,(^|')module $name(/|\\\\n|\$),\1module $new\2," \
	-e "s,(^[[:space:]]|require |replace |-replace )$name( v0\.0\.0| =>|=|@),\1$new\2," \
	-e "s,(Module\.Path \")$name\",\1$new\"," \
	"${files[@]}"
gofmt -l . | xargs -r gofmt -w # imports in another order
say "the module is $new: run make test, wrap the lines that became longer than 100 columns, and commit"
