#!/usr/bin/env bash
# Times `cofferdam run -- true` against `git worktree add` and `remove`, interleaved.
#
# Usage: scripts/bench-run.sh [ROUNDS [FILES]]    (21 rounds, 1000 files)
# Prints the median of both and the difference; fails above 60 ms, unless
# COFFERDAM_BENCH_LIMIT_MS says otherwise. Only the two of one run compare: a
# busy machine slows both.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-21}
files=${2:-1000}
limit=${COFFERDAM_BENCH_LIMIT_MS:-60}
cargo build --release --locked --quiet
binary=$(realpath "${CARGO_TARGET_DIR:-target}/release/cofferdam")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME="$scratch/home" COFFERDAM_STATE_DIR="$scratch/state"
mkdir "$HOME"
scripts/make-repo.sh "$files" "$scratch/repo" >/dev/null
cd "$scratch/repo"

# elapsed COMMAND…: microseconds that it took.
elapsed() {
  local start=${EPOCHREALTIME/[.,]/}
  "$@" >/dev/null 2>&1
  printf '%d\n' "$((${EPOCHREALTIME/[.,]/} - start))"
}

with_git() {
  git worktree add --detach "$scratch/tree"
  git worktree remove "$scratch/tree"
}

# The median of the lines of a file, in milliseconds.
median() {
  sort -n "$1" | awk '{ value[NR] = $1 } END { printf "%.1f", value[int((NR + 1) / 2)] / 1000 }'
}

# The first round warms caches and is not counted.
elapsed with_git >/dev/null
elapsed "$binary" run -- true >/dev/null
for ((round = 0; round < rounds; round++)); do
  elapsed with_git >>"$scratch/git.times"
  elapsed "$binary" run -- true >>"$scratch/run.times"
done

git_ms=$(median "$scratch/git.times")
run_ms=$(median "$scratch/run.times")
difference=$(awk -v run="$run_ms" -v git="$git_ms" 'BEGIN { printf "%.1f", run - git }')
printf '%d files, %d rounds, medians\n' "$files" "$rounds"
printf 'git worktree add + remove  %8s ms\n' "$git_ms"
printf 'cofferdam run -- true      %8s ms\n' "$run_ms"
printf 'difference                 %8s ms (limit %s)\n' "$difference" "$limit"
awk -v difference="$difference" -v limit="$limit" 'BEGIN { exit !(difference <= limit) }'
