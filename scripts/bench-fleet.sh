#!/usr/bin/env bash
# Runs a fleet of agents through one launcher and prints the launcher's peak memory.
#
# Usage: scripts/bench-fleet.sh [AGENTS [FILES]]    (100 agents, 1000 files)
# The peak is the launcher's own VmHWM, read from /proc until it ends: helpers
# and agents are processes of their own and do not count. Fails from 60 MB on.
set -euo pipefail
cd "$(dirname "$0")/.."
agents=${1:-100}
files=${2:-1000}
most_kb=60000
cargo build --release --locked --quiet
binary=$(realpath "${CARGO_TARGET_DIR:-target}/release/cofferdam")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME="$scratch/home" COFFERDAM_STATE_DIR="$scratch/state"
mkdir "$HOME"
scripts/make-repo.sh "$files" "$scratch/repo" >/dev/null
for ((number = 0; number < agents; number++)); do
  printf '[[task]]\nname = "agent%d"\ncommand = ["sh", "-c", "echo %d > new%d.txt"]\n\n' \
    "$number" "$number" "$number"
done >"$scratch/plan.toml"

cd "$scratch/repo"
start=${EPOCHREALTIME/[.,]/}
"$binary" run --max-total "$agents" --quiet "$scratch/plan.toml" &
launcher=$!
peak=0
while read -r now < <(awk '/^VmHWM:/ { print $2 }' "/proc/$launcher/status" 2>/dev/null); do
  [ "$now" -gt "$peak" ] && peak=$now
  sleep 0.02
done
code=0
wait "$launcher" || code=$?
milliseconds=$(((${EPOCHREALTIME/[.,]/} - start) / 1000))
landed=$(find . -maxdepth 1 -name 'new*.txt' | wc -l)
printf '%d agents, %d files: exit code %d, %d landed, %d ms\n' \
  "$agents" "$files" "$code" "$landed" "$milliseconds"
printf 'peak memory of the launcher: %d kB (limit %d)\n' "$peak" "$most_kb"
[ "$code" -eq 0 ] && [ "$landed" -eq "$agents" ] && [ "$peak" -gt 0 ] && [ "$peak" -lt "$most_kb" ]
