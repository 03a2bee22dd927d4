#!/usr/bin/env bash
# Makes a git repository of N files in DIR, the same one each time.
#
# Usage: scripts/make-repo.sh N DIR
# About 2 KB of text a file, at most 100 files a directory, one commit on
# `main` with a fixed author and time. The commit's id is printed.
set -euo pipefail
if [ $# -ne 2 ]; then
  printf 'usage: %s N DIR\n' "$0" >&2
  exit 2
fi
count=$1
directory=$2
if [ -e "$directory" ]; then
  printf '%s exists already; name a directory that does not\n' "$directory" >&2
  exit 2
fi

git init -q -b main "$directory"
awk -v count="$count" '
  BEGIN {
    print "commit refs/heads/main"
    print "committer Sample <sample@example.invalid> 1700000000 +0000"
    message = "sample: " count " files"
    printf "data %d\n%s\n", length(message), message
    for (number = 0; number < count; number++) {
      text = ""
      for (line = 1; line <= 32; line++) {
        text = text sprintf("file %06d, line %02d: the quick brown fox jumps over it\n", number, line)
      }
      printf "M 100644 inline part%03d/file%06d.txt\n", int(number / 100), number
      printf "data %d\n%s\n", length(text), text
    }
  }' | git -C "$directory" fast-import --quiet
git -C "$directory" reset -q --hard main
git -C "$directory" rev-parse main
