#!/usr/bin/env bash
# Tries the parsers of tree objects and of identity lists on inputs that are
# guided by the code that they reach, for a number of seconds each.
#
# usage: scripts/fuzz-parsers.sh SECONDS
#
# Needs `cargo-fuzz` and, for the instruments of a stable compiler, nothing
# more: they are asked for as a nightly one would. An input that fails is left
# below fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: scripts/fuzz-parsers.sh SECONDS}
export RUSTC_BOOTSTRAP=1
for target in tree identities; do
  # Inputs that are understood come first: no chance finds a header.
  mkdir -p "fuzz/corpus/$target"
  # No sanitizer: the parsers are safe code, and a build takes minutes less.
  cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    "-max_total_time=$seconds" -max_len=4096 -print_final_stats=1
done
