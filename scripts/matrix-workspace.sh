#!/usr/bin/env bash
# Tries every workspace backend on every file system, as root and as an
# ordinary user.
#
# Usage: scripts/matrix-workspace.sh [SECONDS]    (as root; one whole round at least)
#
# File systems are images on loop devices, with repository and state directory
# on the same one, and once apart. For each combination an agent finds exactly
# what the parent has, edits, moves directories, commits; the result is compared
# with the same edits in a plain copy; then nothing may be left. A backend that
# is not to be had must refuse with exit 2 and start nothing; which ones those
# are is written down here. Prints a line for each; ends with 1 on a difference.
set -euo pipefail
cd "$(dirname "$0")/.."
until=$((SECONDS + ${1:-0}))
[ "$(id -u)" = 0 ] || { echo 'it needs root, for loop devices' >&2; exit 2; }
[ -n "${COFFERDAM_BENCH_BINARY:-}" ] || cargo build --release --locked --quiet
source=$(realpath "${COFFERDAM_BENCH_BINARY:-${CARGO_TARGET_DIR:-target}/release/cofferdam}")
user=1500
scratch=$(mktemp -d)
chmod 755 "$scratch"
binary=$scratch/cofferdam
install -m 755 "$source" "$binary"
export GIT_CONFIG_NOSYSTEM=1

finish() {
  for place in "$scratch"/mnt/*; do umount "$place" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap finish EXIT

as() { # as WHO COMMAND…
  local who=$1
  shift
  env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$scratch/home-$who" GIT_CONFIG_NOSYSTEM=1 COFFERDAM_STATE_DIR="$state" \
    setpriv --reuid "$who" --regid "$who" --clear-groups "$@"
}

make_fs() { # make_fs KIND PLACE
  local image=$scratch/$(basename "$2").img
  mkdir -p "$2"
  case $1 in
    tmpfs) mount -t tmpfs -o size=600m none "$2" ;;
    ext4) truncate -s 400M "$image"; mkfs.ext4 -q "$image"; mount -o loop "$image" "$2" ;;
    xfs) truncate -s 400M "$image"; mkfs.xfs -q "$image"; mount -o loop "$image" "$2" ;;
    btrfs) truncate -s 400M "$image"; mkfs.btrfs -q "$image" >/dev/null 2>&1; mount -o loop "$image" "$2" ;;
  esac
  chmod 777 "$2"
}

# What the agent does, and a plain copy of the parent as well.
edits='set -e
echo more >>src/a.txt
printf "same size" >b.bin
git mv src/dir src/moved
mv old/deep old/renamed
python3 -c "import os; os.rename(\"tree\", \"trunk\")"
rm -r gone
rm link; ln -s src/a.txt link
chmod 755 src/a.txt
mkdir fresh; echo x >"fresh/new line
in name"; ln fresh/* fresh/hard
rm kind; mkdir kind; echo in >kind/of
rm -r was-dir; echo file >was-dir
echo ignored >x.log'

parent() { # parent WHO
  as "$1" sh -ec '
    git init -q -b main "$1"; cd "$1"
    git config user.name x; git config user.email x@y
    mkdir -p src/dir old/deep/er tree/a/b gone was-dir
    for f in src/a.txt src/dir/1 src/dir/2 old/deep/er/f tree/a/b/c gone/g was-dir/w kind; do echo "$f" >"$f"; done
    head -c 100000 /dev/urandom >b.bin; ln -s b.bin link; echo "*.log" >.gitignore
    git add -A; git commit -qm one
    echo uncommitted >>old/deep/er/f; echo untracked >untracked; git rm -q --cached gone/g; rm tree/a/b/c; echo c >tree/a/b/d' sh "$repo"
}

listing='find . -path ./.git -prune -o -printf "%p %y %m\n" | LC_ALL=C sort; find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha1sum; git status --porcelain=v1 -uall; git ls-files --stage'

# wrong WHAT: the first thing that is wrong is the one that is told.
wrong() { [ "$say" != ok ] || say=$1; }

failed=0
try() { # try WHO BACKEND WHERE WANTED
  local who=$1 backend=$2 where=$3 wanted=$4 got=0 say=ok
  rm -rf "$repo" "$state" "$repo.copy"
  parent "$who"
  cp -a "$repo" "$repo.copy"
  as "$who" "$binary" run --workspace "$backend" --integrate never --repo "$repo" -- sh -c "$listing" >/dev/null 2>"$scratch/seen" || got=$?
  if [ "$wanted" = refused ]; then
    if [ "$got" != 2 ] || [ -e "$state/runs/"* ] 2>/dev/null; then say="expected a refusal, got exit $got"; fi
  elif [ "$got" != 0 ]; then
    say="exit $got: $(tail -n 2 "$scratch/seen" | tr '\n' ' ')"
  else
    (cd "$repo" && as "$who" sh -c "$listing") | sed 's/^/sh │ /' >"$scratch/here"
    grep '^sh │ ' "$scratch/seen" | cmp -s - "$scratch/here" || wrong 'the agent sees something else'
    as "$who" "$binary" run --quiet --workspace "$backend" --repo "$repo" -- sh -c "cd '$repo' 2>/dev/null || :; $edits" 2>"$scratch/err" || wrong "edits: exit $? $(tail -n 1 "$scratch/err")"
    (cd "$repo.copy" && as "$who" sh -c "$edits")
    diff -r --exclude=.git --exclude='*.log' --no-dereference "$repo" "$repo.copy" >"$scratch/diff" 2>&1 || wrong "the result differs: $(head -n 1 "$scratch/diff")"
    as "$who" "$binary" gc --repo "$repo" --older 0s >/dev/null 2>&1 || wrong "gc: exit $?"
    [ -z "$(as "$who" git -C "$repo" for-each-ref refs/cofferdam)" ] || wrong 'refs are left'
    [ "$(as "$who" git -C "$repo" worktree list | wc -l)" = 1 ] || wrong 'a worktree is left'
    [ -z "$(ls -A "$state/runs" "$state/bases" "$state/trash" 2>/dev/null | grep -v ':$')" ] || wrong 'directories are left'
  fi
  grep -q "$scratch" /proc/mounts && grep "$scratch" /proc/mounts | grep -q overlay && wrong 'a mount is left'
  [ "$say" = ok ] || failed=1
  printf '%-14s %-5s %-9s %-8s %s\n' "$where" "$who" "$backend" "$wanted" "$say"
}

round() {
  for who in 0 $user; do
    mkdir -p "$scratch/home-$who"
    chown "$who:$who" "$scratch/home-$who"
    for kind in ext4 xfs btrfs tmpfs; do
      repo=$scratch/mnt/$kind/repo
      state=$scratch/mnt/$kind/state
      for backend in auto overlay reflink checkout; do
        wanted=works
        case $backend:$kind in reflink:ext4 | reflink:tmpfs) wanted=refused ;; esac
        try "$who" "$backend" "$kind" "$wanted"
      done
    done
    repo=$scratch/mnt/xfs/repo
    state=$scratch/mnt/btrfs/state
    for backend in auto overlay reflink checkout; do
      wanted=works
      [ "$backend" = reflink ] && wanted=refused
      try "$who" "$backend" "xfs over btrfs" "$wanted"
    done
  done
}

for kind in ext4 xfs btrfs tmpfs; do make_fs "$kind" "$scratch/mnt/$kind"; done
round
while [ $SECONDS -lt $until ]; do round; done
exit $failed
