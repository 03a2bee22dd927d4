#!/usr/bin/env bash
# Times launching `true` confined against bare, bubblewrap and Landlock alone.
#
# Usage: scripts/bench-launch.sh [ROUNDS]    (200)
# The rounds are interleaved and medians compared, because only what ran in the
# same moments compares. Fails if a confined launch is slower than
# `bwrap --unshare-all` with the same view. The share of the helper is what a
# confined launch takes beyond a bare one; the goal is 3 ms on an idle core.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-200}
command -v bwrap >/dev/null || {
  echo 'failed to compare: install `bubblewrap` first' >&2
  exit 2
}
cargo build --release --locked --quiet -p cofferdam-sandbox
fixture=$(realpath "${CARGO_TARGET_DIR:-target}/release/cofferdam-sandbox-fixture")
"$fixture" bench "$rounds" | python3 -c '
import json, sys
facts = json.load(sys.stdin)
bare = facts["bare"]
print("%-14s %10s %10s %8s" % ("launch", "median ms", "least ms", "x bare"))
for name, one in facts.items():
    ratio = one["median_us"] / bare["median_us"]
    print("%-14s %10.2f %10.2f %8.1f" % (name, one["median_us"] / 1000, one["min_us"] / 1000, ratio))
confined, peer = facts["confined"], facts["bwrap"]
share = [(confined[key] - bare[key]) / 1000 for key in ("median_us", "min_us")]
print("share of the helper: median %.2f ms, least %.2f ms (goal 3)" % tuple(share))
ratio = confined["median_us"] / peer["median_us"]
print("confined / bwrap: %.2f (goal 1)" % ratio)
sys.exit(ratio > 1)
'
