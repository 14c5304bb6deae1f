#!/usr/bin/env bash
# Tests of setup.sh, build.sh, native.sh and the checks, against a small module
# of their own and with fakes of the programs that they ask.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
	printf 'FAIL %s: %s\n' "$current" "$1" >&2
	[ ! -s "$scratch/output" ] || sed 's/^/    /' "$scratch/output" >&2
	failures=$((failures + 1))
}

# expect WORDS... says that the last output has all of them.
expect() {
	local words
	for words in "$@"; do
		grep -qF -- "$words" "$scratch/output" || fail "the output lacks: $words"
	done
}

refuse() { ! grep -qF -- "$1" "$scratch/output" || fail "the output has: $1"; }

# with_output runs a command with its output kept; its status is the result.
with_output() { "$@" >"$scratch/output" 2>&1; }

# fake NAME writes a program from standard input, first in PATH.
fake() {
	{ echo '#!/bin/bash' && cat; } >"$scratch/fakes/$1"
	chmod +x "$scratch/fakes/$1"
}

# new_module makes a tree with the scripts and one native plugin, "plain" and
# "native", each a program, and a PATH in which neither apt nor sudo does anything.
new_module() {
	current=$1
	rm -rf "$scratch/module" "$scratch/fakes"
	mkdir -p "$scratch/module/cmd/"{transportbench,transports-plain,transports-native} \
		"$scratch/module/"{core/pure,core/plugin,plugins/plain/internal,plugins/native} "$scratch/fakes"
	cd "$scratch/module"
	cp -r "$root/scripts" .
	cp -r "$root/core/plugin/sources" core/plugin/
	rm core/plugin/sources/*_test.go
	printf 'module transportbench\n\ngo 1.25.0\n' >go.mod
	for plugin in plain native; do
		printf 'package %s\n' $plugin >plugins/$plugin/plugin.go
		printf 'package main\n\nimport _ "transportbench/plugins/%s"\n' $plugin >cmd/transports-$plugin/plugins.go
	done
	printf 'package main\n\nfunc main() {}\n' | tee cmd/transportbench/main.go >cmd/transports-plain/main.go
	printf '//go:build !fakelib\n\npackage main\n\nfunc main() { println("stub") }\n' >cmd/transports-native/stub.go
	printf '//go:build fakelib && cgo\n\npackage main\n\nimport "C"\n\nfunc main() { println("native") }\n' \
		>cmd/transports-native/native.go
	printf 'transports-native fakelib libfake-dev fakelib\n' >"$scratch/table"
	fake pkg-config <<<'exit 1'
	fake apt-get <<<'echo "apt-get $*"; case "$*" in *install*) '"$scratch"'/on-install;; esac'
	# shellcheck disable=SC2016 # it is the fake that expands them
	fake sudo <<<'echo "sudo $*"; [ "$1" = -n ] && shift; "$@"'
	fake id <<<'echo 0'
	printf '#!/bin/bash\n' >"$scratch/on-install"
	chmod +x "$scratch/on-install"
}

found() { fake pkg-config <<<'[ "$*" = "--exists fakelib" ]'; }

with_fakes() {
	with_output env PATH="$scratch/fakes:$PATH" NATIVE_TABLE="$scratch/table" CI=true GOFLAGS=-mod=mod "$@"
}

new_module "a plugin whose library is missing is built as a stub"
with_fakes scripts/build.sh || fail "build.sh failed"
expect "native: a stub" "libfake-dev"
with_output bin/plugins/transport-native && expect stub
[ -x bin/plugins/transport-plain ] || fail "the other plugin was held up"

new_module "a plugin whose library is there is built with its tag and cgo"
found
with_fakes scripts/build.sh || fail "build.sh failed"
refuse stub
with_output bin/plugins/transport-native && expect native

new_module "the headers of libibverbs may be below a prefix"
fake pkg-config <<<'[ "$*" = "--exists fakelib" ] || { [ "$*" = "--variable=includedir libibverbs" ] && echo '"$scratch"'/module; }'
mkdir fakelib && touch fakelib/verbs.h
sed -i 's,^import "C",// #include <fakelib/verbs.h>\n&,' cmd/transports-native/native.go
with_fakes scripts/build.sh || fail "build.sh failed"
with_output bin/plugins/transport-native && expect native

new_module "plugins have the digests of their sources, whatever the commit"
printf 'package plugin\n\nvar sources string\n\nfunc init() { println(sources) }\n' >core/plugin/plugin.go
printf 'package main\n\nimport _ "transportbench/core/plugin"\n\nfunc main() {}\n' >cmd/transports-plain/main.go
digests() { with_fakes scripts/build.sh && with_output bin/plugins/transport-plain && cat "$scratch/output"; }
first=$(digests)
[[ $first =~ ^native=[0-9a-f]{64},plain=[0-9a-f]{64}$ ]] || fail "the digests are \"$first\""
echo '// nothing' >>plugins/plain/plugin.go
git init -q . && git add . && git -c user.name=a -c user.email=a commit -qm a
[ "$(digests)" = "$first" ] || fail "a comment and a commit change a digest"
echo 'var X int' >>plugins/plain/plugin.go
[[ $(digests) =~ ^${first%,*}, && $(cat "$scratch/output") != "$first" ]] || fail "a change changes not only the digest of its plugin"

new_module "without a C compiler a library that is there makes a stub too"
found
with_fakes env CC=no-such-compiler scripts/build.sh || fail "build.sh failed"
expect "native: a stub" "gcc libc6-dev"

new_module "a plugin of whose libraries one is missing is built, and build.sh says what is missing"
found
echo 'transports-native otherlib libother-dev other' >>"$scratch/table"
with_fakes scripts/build.sh || fail "build.sh failed"
expect "native: a stub, or incomplete" "libother-dev"
refuse "libfake-dev"
with_output bin/plugins/transport-native && expect native

new_module "a plugin that does not build leaves no old one behind"
mkdir -p bin/plugins && touch bin/plugins/transport-plain bin/plugins/transport-gone
echo 'broken' >cmd/transports-plain/main.go
! with_fakes scripts/build.sh || fail "build.sh did not fail"
expect "transports-plain does not build, the program of plain"
[ ! -e bin/plugins/transport-plain ] || fail "the old plugin is still there"

new_module "a plugin that left the tree leaves bin"
mkdir -p bin/plugins && touch bin/plugins/transport-gone
with_fakes scripts/build.sh || fail "build.sh failed"
[ ! -e bin/plugins/transport-gone ] || fail "the plugin is still there"

# packageable turns the module's command into one that can be packaged: it says its version and its completion.
packageable() {
	mkdir -p cmd/transportbench/internal/man tools
	cp -r "$root/tools/package" tools/
	cat >cmd/transportbench/main.go <<-'GO'
		package main

		import "os"

		func main() { println(os.Args[1]); os.Stdout.WriteString("transportbench 1.2.3, revision 0123456789abcdef\n") }
	GO
	printf 'package main\n\nimport "os"\n\nfunc main() { os.Mkdir(os.Args[1], 0o755); os.WriteFile(os.Args[1]+"/transportbench.1", nil, 0o644) }\n' \
		>cmd/transportbench/internal/man/main.go
	printf '## Unreleased\n\n- It is\n  faster.\n- It is small.\n\n## 0.1.0 (2001-02-03)\n\n- It runs.\n\n## Before\n\n- None.\n' >CHANGELOG.md
	with_fakes scripts/build.sh || fail "build.sh failed"
}

new_module "install puts everything below a prefix, and removes plugins of an older version"
! with_fakes scripts/install.sh /opt/x || fail "install.sh did not fail without a build"
expect "run make build first"
packageable
! with_fakes scripts/install.sh x || fail "install.sh took a relative prefix"
expect 'PREFIX: "x" is not an absolute path'
mkdir -p root/opt/x/lib/transportbench/plugins && touch root/opt/x/lib/transportbench/plugins/transport-gone
with_fakes scripts/install.sh /opt/x/ "$PWD/root" || fail "install.sh failed"
(cd root/opt/x && find . ! -type d | sort) >"$scratch/output"
expect ./bin/transportbench ./lib/transportbench/plugins/transport{,s}-{native,plain} \
	./share/man/man1/transportbench.1 ./share/bash-completion/completions/transportbench \
	./share/zsh/site-functions/_transportbench ./share/fish/vendor_completions.d/transportbench.fish
refuse transport-gone
[ "$(cat root/opt/x/lib/transportbench/revision)" = 0123456789ab ] || fail "the revision is not that of what was built"
echo ba9876543210 >root/opt/x/lib/transportbench/revision
with_fakes scripts/install.sh /opt/x/ "$PWD/root" || fail "install.sh failed beside an older version"
(cd root/opt/x && find . ! -type d | sort) >"$scratch/output"
expect ./lib/transportbench/{kept/ba9876543210,plugins}/transport{,s}-plain
printf 'func broken\n' >>cmd/transportbench/internal/man/main.go
if [ "$(id -u)" -eq 0 ]; then
	with_fakes scripts/install.sh /opt/x/ "$PWD/root" || fail "install.sh made the manual pages again as root"
fi
rm -r bin/man
! with_fakes scripts/install.sh /opt/x/ "$PWD/root" || fail "install.sh went on without manual pages"

new_module "equal builds make equal packages"
packageable
for again in first second; do
	with_fakes env SOURCE_DATE_EPOCH=1000000000 DEBFULLNAME="A Maintainer" DEBEMAIL=a@example.org scripts/package.sh || fail "package.sh failed"
	expect transportbench_1.2.3+g01234567_linux_ "transportbench_1.2.3+g01234567_$(go env GOARCH).deb"
	cp bin/package/SHA256SUMS $again
done
cmp first second || fail "they differ"
(cd bin/package && with_output sha256sum -c SHA256SUMS) || fail "SHA256SUMS is wrong"
with_output cat bin/package/*.cdx.json && expect '"bomFormat": "CycloneDX"' '"id": "BSD-3-Clause"' '"purl": "pkg:golang/std@' '"name": "transports-plain"'
with_output tar tvzf bin/package/*.tar.gz && expect "_linux_$(go env GOARCH)/lib/transportbench/plugins/transport-plain -> transports-plain"
if have dpkg-deb; then
	with_output dpkg-deb --info bin/package/*.deb && expect "Version: 1.2.3+g01234567" "Recommends: libucx0" "bash-completion" "Revision 0123456789abcdef" \
		"Maintainer: A Maintainer <a@example.org>"
	refuse Depends # its programs are linked statically
	with_output dpkg-deb --contents bin/package/*.deb && expect ./usr/bin/transportbench ./usr/share/man/man1/transportbench.1.gz
	dpkg-deb --fsys-tarfile bin/package/*.deb >files.tar
	tar xOf files.tar ./usr/share/doc/transportbench/changelog.gz | gunzip >"$scratch/output"
	expect "transportbench (1.2.3+g01234567) unstable; urgency=medium" "  * It is faster." "  * It is small." \
		" -- A Maintainer <a@example.org>  Sun, 09 Sep 2001 01:46:40 +0000" \
		"transportbench (0.1.0) unstable" "  * It runs" " -- A Maintainer <a@example.org>  Sat, 03 Feb 2001 00:00:00 +0000"
	refuse "None"
	with_output tar xOf files.tar ./usr/share/doc/transportbench/copyright && expect "std $(go env GOVERSION | sed s/go//)" "Redistributions of source code"
fi
found
with_fakes scripts/build.sh || fail "build.sh failed"
with_fakes scripts/package.sh || fail "package.sh failed"
if have dpkg-deb; then with_output dpkg-deb --info bin/package/*.deb && expect "Depends: libc6 (>= 2."; fi

new_module "a release is built twice, from a commit with an entry in the change log"
packageable
printf 'bin\n' >.gitignore
printf 'package core\n\nconst Version = "1.2.3"\n' >core/version.go
export GIT_CONFIG_GLOBAL=/dev/null
RELEASE_CACHE=$(go env GOCACHE)
export RELEASE_CACHE
git init -q . && git add . && git -c user.name=x -c user.email=x commit -qm x
! with_fakes scripts/release.sh || fail "release.sh did not fail"
expect 'CHANGELOG.md begins with "## Unreleased": turn it into version 1.2.3'
printf '## 1.2.3 (today)\n' >CHANGELOG.md
git add . && git -c user.name=x -c user.email=x commit -qm x
with_fakes scripts/release.sh || fail "release.sh failed"
(cd bin/release && with_output sha256sum -c SHA256SUMS) || fail "SHA256SUMS is wrong"
echo 'date +%N >>bin/man/transportbench.1' >>scripts/man.sh
git add . && git -c user.name=x -c user.email=x commit -qm x
! with_fakes scripts/release.sh || fail "release.sh did not fail"
expect "two builds of the same commit differ"
echo >>cmd/transports-plain/main.go
! with_fakes scripts/release.sh || fail "release.sh did not fail"
expect "commit or undo your changes first"
unset GIT_CONFIG_GLOBAL RELEASE_CACHE

new_module "the module gets another path, and directories of that name keep theirs"
printf 'package core\n\nvar revision, Directory = "", "lib/transportbench/plugins"\n\nfunc Revision() string { return revision }\n' >core/core.go
printf 'package main\n\nimport "transportbench/core"\n\nfunc main() { println(core.Revision(), core.Directory) }\n' >cmd/transportbench/main.go
! with_output scripts/set-module-path.sh 'a path' || fail "it took a path with a space"
expect '"a path" is not the path of a Go module'
with_output scripts/set-module-path.sh example.org/x/transportbench || fail "set-module-path.sh failed"
with_fakes scripts/build.sh || fail "build.sh failed"
with_output bin/transportbench && expect "unknown lib/transportbench/plugins"
! with_output scripts/set-module-path.sh example.org/x/transportbench || fail "it changed nothing and did not fail"

new_module "every module of this repository follows another path"
(cd "$root" && find . -type f \( -name '*.go' -o -name '*.s' -o -name '*.[ch]' -o -name 'go.*' -o -name '*.sh' \) \
	-not -path './bin/*' -not -path './results/v*' -exec cp --parents -t "$scratch/module" {} +)
with_output scripts/set-module-path.sh example.org/x/transportbench || fail "set-module-path.sh failed"
for module in . docs/example tools tools/package tools/kubernetes; do
	go -C $module list -e -deps -test -f '{{.ImportPath}}: {{.Error}}' ./... 2>&1 | grep -E '^transportbench/|not in std' || true
done >"$scratch/output"
[ ! -s "$scratch/output" ] || fail "these keep the old path"

new_module "setup prints nothing if nothing is missing"
found
with_fakes scripts/setup.sh bench || fail "setup.sh failed"
[ ! -s "$scratch/output" ] || fail "it said something"

new_module "setup installs what is missing and says why"
with_fakes scripts/setup.sh bench || fail "setup.sh failed"
expect "installing libfake-dev with apt: needed by native" \
	"apt-get update" "apt-get install -y --no-install-recommends" "libfake-dev"
refuse "sudo"

new_module "setup uses sudo without a prompt where it is not root"
fake id <<<'echo 1000'
with_fakes scripts/setup.sh bench || fail "setup.sh failed"
expect "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install"

new_module "a library that cannot be had holds nothing up"
printf '#!/bin/bash\nexit 100\n' >"$scratch/on-install"
with_fakes scripts/setup.sh bench || fail "setup.sh failed"
expect "apt could not install libfake-dev" "going on without native"

new_module "a system without apt is told what to install"
rm "$scratch/fakes/apt-get"
for tool in bash dirname sed awk sort paste cat env; do ln -s "$(command -v $tool)" "$scratch/fakes/$tool"; done
ln -s "$(command -v go)" "$scratch/fakes/go"
ln -s "$(command -v gcc)" "$scratch/fakes/gcc"
with_output env PATH="$scratch/fakes" NATIVE_TABLE="$scratch/table" GOFLAGS=-mod=mod scripts/setup.sh bench ||
	fail "setup.sh failed"
expect "this system has no apt" "libfake-dev"

new_module "a missing or old Go is named"
fake go <<<'echo "go: go.mod requires go >= 1.25.0 (running go 1.19)" >&2; exit 1'
! with_fakes scripts/setup.sh bench || fail "setup.sh did not fail"
expect "needs Go 1.25.0 or later" "running go 1.19"

new_module "the import rules hold for files of every platform and tag"
printf 'package pure\n\nimport (\n\t"fmt"\n\tu "unsafe"\n)\n' >core/pure/pure_arm64.go
printf '//go:build cgo\n\npackage plain\n\nimport "C"\n' >plugins/plain/plain.go
printf 'package native\n\nimport "transportbench/plugins/plain"\n' >plugins/native/native.go
mkdir -p core/lab
for function in Create Truncate Link Symlink; do printf 'os.%s(\n' $function >core/lab/$function.go; done
! with_output scripts/check-imports.sh || fail "check-imports.sh did not fail"
expect "core/pure/pure_arm64.go: imports unsafe" 'plugins/plain/plain.go: imports "C"' \
	"plugins/native/native.go: imports another plugin" core/lab/{Create,Truncate,Link,Symlink}.go

new_module "what the import rules allow passes"
rm -r cmd/transports-native
printf 'package pure\n\nimport "unsafe"\n' >core/pure/memory_unsafe.go
printf 'package lib\n\nimport "C"\n' >plugins/plain/internal/lib.go
printf 'package plain\n\nimport _ "transportbench/plugins/plain/internal"\n' >plugins/plain/plain.go
with_output scripts/check-imports.sh || fail "check-imports.sh failed"

new_module "a package without doc.go is named"
printf 'package pure\n' >core/pure/pure.go
! with_output scripts/check-docs.sh || fail "check-docs.sh did not fail"
expect "core/pure: no doc.go"
printf '// Package pure is pure.\npackage pure\n' >core/pure/doc.go
with_output scripts/check-docs.sh || true
refuse "core/pure"

new_module "a link to a missing file or heading is named"
mkdir -p docs results
# shellcheck disable=SC2016 # the backticks are Markdown's
printf '# The top\n\n```sh\n# not a heading\n```\n\n## `a_b` and [c](d.md)\n\n## The top\n' >docs/page.md
touch docs/d.md
printf '[x](docs/%s)\n' no.md page.md#the-end page.md#not-a-heading page.md page.md#a_b-and-c \
	page.md#the-top-1 >README.md
! with_output scripts/check-docs.sh || fail "check-docs.sh did not fail"
expect "dead link to docs/no.md" "no heading for docs/page.md#the-end" \
	"no heading for docs/page.md#not-a-heading"
refuse "docs/page.md#a_b"
refuse "docs/page.md#the-top"

new_module "fuzzing reports a target that fails, and its input"
printf 'package pure\n' >core/pure/pure.go
cat >core/pure/pure_test.go <<'GO'
package pure

import "testing"

func FuzzGood(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) {}) }

func FuzzBad(f *testing.F) {
	f.Add([]byte("seed"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 0 {
			t.Fatal("too long")
		}
	})
}
GO
! with_fakes scripts/fuzz.sh 20x || fail "fuzz.sh did not fail"
expect "FuzzBad in core/pure found an input that fails" "too long"
sed -i 's/len(b) > 0/len(b) < 0/' core/pure/pure_test.go
with_fakes scripts/fuzz.sh 20x || fail "fuzz.sh failed"
expect "fuzz core/pure FuzzBad" "fuzz core/pure FuzzGood"

new_module "a step beside others prints its output at the end, and its failure fails"
cat >scripts/steps.sh <<'SH'
set -euo pipefail
. "$(dirname "$0")/lib.sh"
scratch=$1
trap end_beside EXIT
slow() { echo aside && "${@}" && echo passed; }
beside "slow" slow "${@:3}"
step "quick" eval "$2"
join
echo joined
SH
with_output bash scripts/steps.sh "$PWD" "echo meanwhile" true || fail "it failed"
printf '== quick\nmeanwhile\n== slow\naside\npassed\njoined\n' | cmp - "$scratch/output" || fail "the order is another"
with_output sort times && expect " s  quick" " s  slow, beside others"
! with_output bash scripts/steps.sh "$PWD" true false || fail "it did not fail"
expect aside
refuse joined
! with_output bash scripts/steps.sh "$PWD" false sleep 600 || fail "it did not fail"
expect "slow was interrupted, because another step failed"

new_module "a test that had to be run again counts once, not with its parents"
printf 'a/b.TestX%s: 2 runs, 1 failures\n' '' /killed /small /small/control/probe Y >report
with_output leaves report || fail "leaves failed"
expect "a/b.TestX/killed: 2 runs" "a/b.TestX/small/control/probe: 2 runs" "a/b.TestXY: 2 runs"
[ "$(wc -l <"$scratch/output")" = 3 ] || fail "it does not have 3 lines"

new_module "a guest's firmware cannot clear the terminal"
printf '\033c\033[2J\302\2332Jbooted\r\n== step \303\251\n' >console
with_output console_text <console
expect "?c?[2J?2Jbooted" "== step é"
! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" "$scratch/output" || fail "control characters are left"

new_module "skipped tests leave the output, and the summary counts them by reason"
export UNTESTED=$scratch/untested
: >"$UNTESTED"
cat >output <<'TEXT'
ok  	a/b	0.1s

=== Skipped
=== SKIP: a/b TestX (0.00s)
    x_test.go:7: no device: plug one in

=== SKIP: a/b TestY/z (0.00s)
    y_test.go:9: no device: plug one in

=== SKIP: a/c TestQuiet (0.00s)

=== Failed
=== FAIL: a/c TestBad (0.00s)
    bad_test.go:3: bad

DONE 4 tests, 3 skipped, 1 failure in 1.0s
TEXT
with_output without_skips <output
expect "ok  	a/b" "=== FAIL: a/c TestBad" "bad_test.go:3: bad" "DONE 4 tests"
refuse SKIP
refuse "plug one in"
with_output untested "the verbs device" "no QEMU"
expect "transportbench: the verbs device goes untested: no QEMU"
with_output by_reason "$UNTESTED"
expect "    2  a/b TestX and 1 more: no device: plug one in" "    1  a/c TestQuiet: no reason" "    1  the verbs device: no QEMU"
unset UNTESTED

new_module "the long tests run every test that short mode leaves to them"
cat >core/pure/pure_test.go <<'GO'
func TestSlow(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		inLongTests(t)
	})
}

func TestSaysSo(t *testing.T) { t.Skip("half a minute: scripts/test.sh long runs it") }

func TestListed(t *testing.T) { inLongTests(t) }

func inLongTests(t *testing.T) { t.Skip("scripts/test.sh long runs it") }
GO
with_output left_out 'TestOther|TestListed/some' core/pure/pure_test.go
printf 'TestSaysSo\nTestSlow\n' | cmp - "$scratch/output" || fail "it does not name them"
cd "$root"
mapfile -t files < <(grep -rlE 'inLongTests|test\.sh long|make test-long' --include='*_test.go' cmd core plugins)
[ ${#files[@]} -gt 0 ] || fail "no test is left to them"
with_output left_out "$(sed -n "s/^long_tests='\(.*\)'$/\1/p" scripts/test.sh)" "${files[@]}"
[ ! -s "$scratch/output" ] || fail "long_tests in test.sh leaves these out:"

# fake_govulncheck VERSION STATUS makes a govulncheck that answers -version with VERSION, and ends a scan with STATUS.
fake_govulncheck() {
	fake go <<-FAKE
		case "\$*" in
		*govulncheck*-version) printf '%s\n' "$1" ;;
		*govulncheck*-h) exit ${3:-0} ;;
		*govulncheck*) echo "scanned: \$*"; exit $2 ;;
		*) exec "$(command -v go)" "\$@" ;;
		esac
	FAKE
}

new_module "a vulnerability that a program can reach is an error"
fake_govulncheck "DB updated: 2026-01-01" 3
! with_fakes scripts/vulncheck.sh || fail "vulncheck.sh did not fail"
expect "scanned: tool -modfile=tools/go.mod govulncheck -db https://vuln.go.dev" "can reach a known vulnerability"
fake_govulncheck "DB updated: 2026-01-01" 0
with_fakes scripts/vulncheck.sh || fail "vulncheck.sh failed"
refuse untested

new_module "without the database of vulnerabilities, nothing is scanned, and the summary says so"
fake_govulncheck "DB: https://vuln.go.dev" 3
with_fakes env UNTESTED="$scratch/untested" GOVULNDB=https://mirror.example scripts/vulncheck.sh || fail "vulncheck.sh failed"
expect "govulncheck goes untested: the database of vulnerabilities, https://mirror.example, cannot be reached"
refuse scanned
with_output cat "$scratch/untested" && expect "cannot be reached	govulncheck"

new_module "a govulncheck that is broken is an error, with the database or without"
fake_govulncheck "DB updated: 2026-01-01" 1
! with_fakes scripts/vulncheck.sh || fail "vulncheck.sh did not fail"
expect "govulncheck failed with exit code 1"
refuse "goes untested"
fake_govulncheck "" 0 1
! with_fakes scripts/vulncheck.sh || fail "vulncheck.sh did not fail"
expect "govulncheck does not run"

new_module "cluster.sh explains its flags"
with_output scripts/cluster.sh --help || fail "cluster.sh --help failed"
expect "starts Slurm" "COMMAND..."
refuse "illegal option"

new_module "checks compile without -trimpath, though the script that runs them has set it"
# shellcheck disable=SC2016 # it is the fake that expands it
fake go <<<'echo "flags: $GOFLAGS"'
with_fakes bash -c '. scripts/lib.sh; bash -c ". scripts/lib.sh; . scripts/native.sh; tags=; go_vet; golangci_lint"'
expect "flags:"
refuse trimpath

[ $failures = 0 ] || die "$failures checks of the scripts failed"
echo "ok  scripts"
