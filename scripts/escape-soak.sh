#!/usr/bin/env bash
# Repeats the escape suite and the kill matrix for some time, each round shifted.
#
# Usage: scripts/escape-soak.sh SECONDS [FILTER]    (3600 for a soak; FILTER as of `cargo test`)
# Each round moves the moments at which processes are killed by a random part
# of a step. Prints the rounds and cases so far; ends at the first failure,
# with what it said and the shift by which it can be repeated.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: scripts/escape-soak.sh SECONDS [FILTER]}
filter=${2:-}

# The path of the one test program that a build names in its messages.
binary() {
  cargo test --locked --no-run --message-format=json "$@" 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

cargo build --workspace --bins --locked --quiet
cage=$(binary -p cofferdam-sandbox --test escape)
program=$(binary -p cofferdam --test it)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

rounds=0
cases=0
run() {
  local name=$1 shift=$2
  shift 2
  if ! ESCAPE_SHIFT_US=$shift "$@" >"$log" 2>&1; then
    cat "$log"
    printf 'FAILED: %s, round %d, after %d cases, ESCAPE_SHIFT_US=%d\n' \
      "$name" "$((rounds + 1))" "$cases" "$shift" >&2
    exit 1
  fi
  local passed
  passed=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$log")
  cases=$((cases + passed))
}

end=$((SECONDS + seconds))
while [ "$SECONDS" -lt "$end" ]; do
  shift_us=$((RANDOM % 750))
  run "the cage" "$shift_us" "$cage" ${filter:+"$filter"}
  # The whole program's escapes are slower and have no moments to shift.
  if [ $((rounds % 5)) -eq 0 ]; then
    run "the program" "$shift_us" "$program" ${filter:-escape_}
  fi
  rounds=$((rounds + 1))
  printf '%d rounds, %d cases, %d s left\n' "$rounds" "$cases" "$((end > SECONDS ? end - SECONDS : 0))"
done
printf 'held: %d rounds, %d cases\n' "$rounds" "$cases"
