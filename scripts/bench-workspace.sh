#!/usr/bin/env bash
# Times workspaces against git's own worktrees, in one run and interleaved.
#
# Usage: scripts/bench-workspace.sh [ROUNDS [SIZE…]]    (7 rounds; 1000 10000 100000 files)
#
# For each size: an agent ready to start (workspace and confinement), the first
# `git status` in it, the capture of 20 edits with the tree written, the
# removal, a whole `run -- true`, and the CPU time of each further agent; beside
# `git worktree add`, `git status`, `git add -A` with `git write-tree`,
# `git worktree remove` and a plain `git clone`. Medians in milliseconds, and
# their ratios. COFFERDAM_BENCH_MANY sets how many workspaces are made in one
# run at the end (1000), COFFERDAM_BENCH_BACKEND which backend (overlay).
# Only figures of one run compare: a busy machine slows both.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-7}
[ $# -gt 0 ] && shift
sizes=("$@")
[ ${#sizes[@]} -gt 0 ] || sizes=(1000 10000 100000)
many=${COFFERDAM_BENCH_MANY:-1000}
backend=${COFFERDAM_BENCH_BACKEND:-overlay}
[ -n "${COFFERDAM_BENCH_BINARY:-}" ] || cargo build --release --locked --quiet
binary=$(realpath "${COFFERDAM_BENCH_BINARY:-${CARGO_TARGET_DIR:-target}/release/cofferdam}")
make_repo=$(realpath scripts/make-repo.sh)

scratch=$(mktemp -d "${TMPDIR:-/tmp}/cofferdam-bench.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
export HOME="$scratch/home" COFFERDAM_STATE_DIR="$scratch/state"
export GIT_CONFIG_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0
mkdir "$HOME"

# elapsed COMMAND…: milliseconds that it took.
elapsed() {
  local start=${EPOCHREALTIME/[.,]/}
  "$@" >/dev/null 2>&1
  awk -v us=$((${EPOCHREALTIME/[.,]/} - start)) 'BEGIN { printf "%.3f\n", us / 1000 }'
}

# median FILE: the median of its lines.
median() {
  sort -n "$1" | awk '{ value[NR] = $1 } END { if (NR) printf "%.1f", value[int((NR + 1) / 2)]; else printf "-" }'
}

# between EVENTS FROM TO: milliseconds between two moments of the last agent.
between() {
  awk -v from="$2" -v to="$3" '
    function at(line, parts) {
      match(line, /"at":"[^"]*/)
      split(substr(line, RSTART + 17, RLENGTH - 18), parts, ":")
      return (parts[1] * 3600 + parts[2] * 60 + parts[3]) * 1000
    }
    index($0, from) { start = at($0) }
    index($0, to) && start { printf "%.3f\n", at($0) - start + (at($0) < start ? 86400000 : 0); exit }' "$1"
}

# run ARG…: one agent, its events in $scratch/events.
run() {
  rm -f "$scratch/events"
  "$binary" run --quiet --events "$scratch/events" --workspace "$backend" --integrate never "$@" >"$scratch/out" 2>"$scratch/err" ||
    { cat "$scratch/err" >&2; exit 1; }
}

note() { printf '%s\n' "$2" >>"$scratch/$1.times"; }

edits='for f in $(git ls-files | head -20000 | awk "NR % 50 == 1" | head -20); do echo changed >>"$f"; done'

# cpu COMMAND…: milliseconds of CPU that it and its children took.
cpu() {
  local TIMEFORMAT='%U %S'
  { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ printf "%.1f", ($1 + $2) * 1000 }'
}

plan() { # plan COUNT LIVE COMMAND
  printf '[run]\nmax_total = %d\nmax_live = %d\nworkspace = "%s"\nintegrate = "never"\n' "$1" "$2" "$backend"
  for ((number = 0; number < $1; number++)); do
    printf '[[task]]\nname = "n%d"\ncommand = ["sh", "-c", "%s"]\n' "$number" "$3"
  done
}

row() { # row LABEL OURS THEIRS
  awk -v label="$1" -v ours="$2" -v theirs="$3" 'BEGIN {
    ratio = (ours > 0 && theirs > 0) ? sprintf("%.2f", theirs / ours) : "-"
    printf "  %-44s %12s %12s %10s\n", label, ours, theirs, ratio
  }'
}

for size in "${sizes[@]}"; do
  rm -rf "$scratch/repo" "$scratch/"*.times
  "$make_repo" "$size" "$scratch/repo" >/dev/null
  cd "$scratch/repo"
  git status >/dev/null
  note cold "$(elapsed run -- true)"
  for ((round = 0; round < rounds; round++)); do
    note status "$(elapsed git status --porcelain)"
    note whole "$(elapsed run -- true)"
    note ready "$(between "$scratch/events" '"state":"starting"' '"state":"running"')"
    run -- sh -c 'a=$(date +%s%N); git status --porcelain >/dev/null; b=$(date +%s%N); git status --porcelain >/dev/null; c=$(date +%s%N); echo $(((b-a)/1000)) $(((c-b)/1000)) >.times; git add -f .times'
    id=$(sed -n 's/.*"run":"\([^"]*\)".*/\1/p' "$scratch/events" | head -1)
    ref=$(git for-each-ref --format='%(refname)' "refs/cofferdam/$id/")
    read -r first second < <(git show "$ref:.times")
    note first "$(awk -v us="$first" 'BEGIN { printf "%.1f", us / 1000 }')"
    note second "$(awk -v us="$second" 'BEGIN { printf "%.1f", us / 1000 }')"
    run -- sh -c "$edits"
    note capture "$(between "$scratch/events" '"event":"ended"' '"state":"captured"')"
    note remove "$(between "$scratch/events" '"state":"captured"' '"event":"integrated"')"
  done
  few=$((rounds < 3 ? rounds : 3))
  for ((round = 0; round < few; round++)); do
    note gitadd "$(elapsed git worktree add --detach "$scratch/tree")"
    note gitfirst "$(elapsed git -C "$scratch/tree" status --porcelain)"
    (cd "$scratch/tree" && sh -c "$edits")
    note gitcapture "$(elapsed sh -c 'cd "$1" && git add -A && git write-tree' sh "$scratch/tree")"
    note gitremove "$(elapsed git worktree remove --force "$scratch/tree")"
    note clone "$(elapsed git clone -q --local "$scratch/repo" "$scratch/tree")"
    rm -rf "$scratch/tree"
  done
  plan 1 1 true >"$scratch/one.toml"
  plan 11 1 true >"$scratch/eleven.toml"
  one=$(cpu "$binary" run --quiet "$scratch/one.toml")
  eleven=$(cpu "$binary" run --quiet "$scratch/eleven.toml")

  printf '%s files, %s rounds, backend %s: medians in ms\n' "$size" "$rounds" "$backend"
  printf '  %-44s %12s %12s %10s\n' '' cofferdam git 'git/ours'
  row 'ready: workspace and confinement | worktree add' "$(median "$scratch/ready.times")" "$(median "$scratch/gitadd.times")"
  row 'the same | plain local clone' "$(median "$scratch/ready.times")" "$(median "$scratch/clone.times")"
  row 'first git status inside | in a worktree' "$(median "$scratch/first.times")" "$(median "$scratch/gitfirst.times")"
  row 'second git status inside | warm in the parent' "$(median "$scratch/second.times")" "$(median "$scratch/status.times")"
  row 'capture of 20 edits | add -A, write-tree' "$(median "$scratch/capture.times")" "$(median "$scratch/gitcapture.times")"
  row 'removal | worktree remove' "$(median "$scratch/remove.times")" "$(median "$scratch/gitremove.times")"
  row 'whole run -- true | warm git status' "$(median "$scratch/whole.times")" "$(median "$scratch/status.times")"
  row 'the first run, base made | worktree add' "$(median "$scratch/cold.times")" "$(median "$scratch/gitadd.times")"
  awk -v one="$one" -v eleven="$eleven" 'BEGIN { printf "  %-44s %12.1f\n", "CPU of each further agent", (eleven - one) / 10 }'
  cd - >/dev/null
done

[ "$many" -gt 0 ] || exit 0
cd "$scratch/repo"
plan "$many" 64 true >"$scratch/many.toml"
printf '%s workspaces on %s files in one run, 64 at once\n' "$many" "${sizes[-1]}"
printf '  made, run and removed                        %12s ms\n' "$(elapsed "$binary" run --quiet "$scratch/many.toml")"
# Fewer, all alive at once: what each takes before it writes.
held=$((many < 64 ? many : 64))
plan "$held" "$held" "sleep 60" >"$scratch/held.toml"
"$binary" run --quiet "$scratch/held.toml" >/dev/null 2>&1 &
launcher=$!
until [ "$(find "$COFFERDAM_STATE_DIR/runs" -mindepth 4 -maxdepth 4 -name started 2>/dev/null | wc -l)" -ge "$held" ]; do sleep 0.2; done
agents=$(echo "$COFFERDAM_STATE_DIR"/runs/*/agents)
printf '  disk of each before it writes                %12s KiB, %s inodes (%s alive)\n' \
  "$(($(du -sk "$agents" | cut -f1) / held))" "$(($(find "$agents" | wc -l) / held))" "$held"
# All processes below the launcher, shared memory counted once.
family=$(ps -e -o pid=,ppid= | awk -v root="$launcher" '
  { parent[$1] = $2 }
  END { for (pid in parent) { for (up = pid; up in parent && up != root; up = parent[up]); if (up == root) print pid } }')
kib=$(for pid in $family; do awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup" 2>/dev/null || true; done |
  awk '{ sum += $1 } END { print sum + 0 }')
printf '  memory of the launcher and all processes     %12s KiB each\n' "$((kib / held))"
kill -TERM "$launcher"
wait "$launcher" || true
