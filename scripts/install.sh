#!/usr/bin/env bash
# Installs what make build has built: the command, its plugins, manual pages and completions.
#
#	install.sh PREFIX [DESTDIR]
#
# DESTDIR is put before every path, for those who make packages. The command finds its plugins in
# lib/transportbench/plugins, beside the bin that it lies in, so PREFIX may be moved as a whole.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

prefix=${1:-}
[[ $prefix = /* ]] || die "PREFIX: \"$prefix\" is not an absolute path"
root=${2:-}${prefix%/}
[ -x bin/transportbench ] || die "bin/transportbench is missing: run make build first"
# Root, who may have no Go and should leave no files in the tree, takes the pages of make man if there are any.
if have go && { [ "$(id -u)" -ne 0 ] || [ ! -d bin/man ]; }; then scripts/man.sh; fi
[ -d bin/man ] || die "bin/man is missing, and there is no Go to make it: run make man first"

plugins=$root/lib/transportbench/plugins
install -d "$root/bin" "$plugins" "$root"/share/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
# A plugin of an older version would still be found. The last ones are kept for diff and ab, which
# compare versions on this machine.
kept=$root/lib/transportbench/kept
# What was built, not what the tree is now: "transportbench 0.8.0, revision REVISION".
read -r _ _ _ built <<<"$(bin/transportbench --version)"
modified=${built#"${built%+modified}"}
built=${built:0:12}$modified
old=$kept/$(cat "$root/lib/transportbench/revision" 2>/dev/null || echo unknown)
if [ "${old##*/}" != unknown ] && [ "${old##*/}" != "$built" ] && [ ! -d "$old" ]; then
	install -d "$old"
	mv "$plugins"/transport* "$old/"
	# shellcheck disable=SC2012 # their names are revisions
	ls -td "$kept"/* | tail -n +4 | xargs -r rm -r
fi
rm -f "$plugins"/transport*
install -m 755 bin/plugins/transports-* "$plugins/"
cp -P bin/plugins/transport-* "$plugins/" # links to them
echo "$built" >"$root/lib/transportbench/revision"
install -m 755 bin/transportbench "$root/bin/"
# Programs without symbols take a third less.
if have strip; then strip "$root/bin/transportbench" "$plugins"/transports-*; fi
install -m 644 bin/man/*.1 "$root/share/man/man1/"
bin/transportbench completion bash >"$root/share/bash-completion/completions/transportbench"
bin/transportbench completion zsh >"$root/share/zsh/site-functions/_transportbench"
bin/transportbench completion fish >"$root/share/fish/vendor_completions.d/transportbench.fish"
say "installed in $root"
