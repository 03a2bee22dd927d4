#!/usr/bin/env bash
# Checks everything a change must pass, in order, and stops at the first failure.
#
# This is the one test command, for a person and for CI alike. Each step is
# announced on one line and closed on one line with its time; what failed is
# said last. CARGO_TARGET_DIR and further cargo settings are taken as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -n "${CI:-}" ]; then
  # Incremental files cost time and space where nothing is built twice.
  export CARGO_INCREMENTAL=0
fi

# The start of the whole and of a step, in whole seconds.
begin=$SECONDS

step() {
  local name=$1
  shift
  local start=$SECONDS
  printf '== %s: %s\n' "$name" "$*"
  if ! "$@"; then
    printf '== FAILED: %s, after %d s: %s\n' "$name" "$((SECONDS - start))" "$*" >&2
    exit 1
  fi
  printf '== ok: %s, %d s\n' "$name" "$((SECONDS - start))"
}

# The tests vendor the dependencies, those of other systems included, and must
# not depend on the network while they run.
step fetch cargo fetch --locked --quiet
step format cargo fmt --all --check
step lint cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
step tidy cargo test --locked --quiet --test tidy
step test cargo test --workspace --locked
step longer-hash env GIT_DEFAULT_HASH=sha256 cargo test --locked --lib -- git:: workspace::
step doc env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
printf '== everything passed, %d s\n' "$((SECONDS - begin))"
