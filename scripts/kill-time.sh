#!/usr/bin/env bash
# Times how long anything of an agent runs after its launcher, helper or init was killed.
#
# Usage: scripts/kill-time.sh [ROUNDS]    (10)
# The agent ignores signals, leaves its session and forks. Prints the longest
# time of each target until no process of it is left; fails above 1000 ms.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-10}
limit=1000
cargo build --release --locked --quiet
binary=$(realpath "${CARGO_TARGET_DIR:-target}/release/cofferdam")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME="$scratch/home" COFFERDAM_STATE_DIR="$scratch/state"
mkdir "$HOME"
scripts/make-repo.sh 20 "$scratch/repo" >/dev/null
cd "$scratch/repo"

# The agent's words hold the mark, which its processes are known by.
agent='trap "" TERM HUP INT; setsid sh -c "(while :; do :; sleep 0.01; done) & wait" "$0" & while :; do sleep 0.01; done'

child_of() {
  local children
  children=$(cat /proc/"$1"/task/*/children 2>/dev/null || true)
  echo "${children%% *}"
}

worst=0
for target in launcher helper init; do
  longest=0
  for ((round = 0; round < rounds; round++)); do
    mark="kill-time-$$-$target-$round"
    "$binary" run --quiet -- sh -c "$agent" "$mark" >/dev/null 2>&1 &
    launcher=$!
    # Two shells of the agent and its subshell: then all of it runs.
    until [ "$(pgrep -fc "^sh -c .*$mark" || true)" -ge 3 ]; do sleep 0.01; done
    helper=$(child_of "$launcher")
    case $target in
      launcher) victim=$launcher ;;
      helper) victim=$helper ;;
      init) victim=$(child_of "$helper") ;;
    esac
    start=${EPOCHREALTIME/[.,]/}
    kill -9 "$victim"
    while pgrep -f "^sh -c .*$mark" >/dev/null; do
      if [ "$((${EPOCHREALTIME/[.,]/} - start))" -gt 30000000 ]; then break; fi
    done
    took=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
    [ "$took" -le "$longest" ] || longest=$took
    wait "$launcher" 2>/dev/null || true
  done
  printf '%-9s killed %d times: nothing left after at most %d ms\n' "$target" "$rounds" "$longest"
  [ "$longest" -le "$worst" ] || worst=$longest
done
"$binary" doctor --repair >/dev/null || true
[ "$worst" -le "$limit" ]
