#!/usr/bin/env bash
# Tries random edit programs for a number of seconds: every way of finding what
# an agent changed has to find the same.
#
# usage: scripts/fuzz-capture.sh SECONDS [FIRST-SERIES]
#
# Each series of programs has a number; the one that fails is printed with the
# smallest program that does, and can be tried again by giving its number.
# Runs as whoever calls it: as the superuser also over layers as it mounts them.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: scripts/fuzz-capture.sh SECONDS [FIRST-SERIES]}
series=${2:-$RANDOM$RANDOM}
programs=64
tried=0
end=$((SECONDS + seconds))

cargo test --locked --quiet --lib --no-run
while [ "$SECONDS" -lt "$end" ]; do
  if ! COFFERDAM_TEST_SERIES=$series COFFERDAM_TEST_PROGRAMS=$programs \
    cargo test --locked --quiet --lib workspace::tests::equality::every; then
    printf 'series %s failed, after %s programs on each of two repositories\n' "$series" "$tried" >&2
    exit 1
  fi
  tried=$((tried + programs))
  series=$((series + 1))
done
printf '%s programs on each of two repositories, all found alike; the next series is %s\n' "$tried" "$series"
