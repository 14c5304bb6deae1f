#!/usr/bin/env bash
# Measures equal sets one after another, and counts the false verdicts of diff over all pairs of them
# and what it finds (transportbench calibrate pairs):
#
#	equal-sets.sh DIR [SETS [PAUSE [SWEEP...]]]
#
# DIR/01, DIR/02, ... are SETS sets (21) of the sweep (standard), PAUSE seconds (600) apart. The
# arguments after PAUSE are those of sweep. A set that was cut short is resumed, and one that is
# complete is kept, so the same command goes on where it ended. Build first; change nothing between.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

dir=${1:?DIR is missing}
sets=${2:-21}
pause=${3:-600}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- standard
all=()
for ((i = 1; i <= sets; i++)); do
	one=$dir/$(printf %02d "$i")
	all+=("$one")
	[ ! -e "$one/.complete" ] || continue
	resume=()
	[ ! -e "$one/sweep.plan" ] || resume=(--resume)
	bin/transportbench sweep "$@" --out "$one" "${resume[@]}"
	touch "$one/.complete"
	[ "$i" = "$sets" ] || sleep "$pause"
done
bin/transportbench calibrate pairs "${all[@]}"
