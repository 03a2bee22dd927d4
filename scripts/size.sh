#!/usr/bin/env bash
# Builds the release binary and prints its size; fails from 15 MB on.
set -euo pipefail
cd "$(dirname "$0")/.."
most=15000000
cargo build --release --locked --quiet
binary=${CARGO_TARGET_DIR:-target}/release/cofferdam
size=$(stat -c %s "$binary")
printf 'release binary: %d bytes (limit %d)\n' "$size" "$most"
[ "$size" -lt "$most" ]
