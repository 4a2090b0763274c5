#!/usr/bin/env bash
# Fails unless the mirror's archives are those of the source's deps.txt: check-mirror.sh DEPS_TXT MIRROR
# CMake checks hashes itself, but for one archive (mp11), and passes over files that it does not ask for.
set -euo pipefail

if [ $# -ne 2 ]; then
  echo "usage: check-mirror.sh DEPS_TXT MIRROR" >&2
  exit 2
fi
deps=$1
mirror=$2

wrong=0
count=0
while IFS= read -r -d '' file; do
  count=$((count + 1))
  url=https://${file#"$mirror"/}
  wanted=$(awk -F ';' -v url="$url" '$2 == url { print $3; exit }' "$deps")
  sum=$(sha1sum "$file" | cut -d ' ' -f 1)
  if [ -z "$wanted" ]; then
    echo "check-mirror: $url is not in deps.txt: nix/pins.nix belongs to another release" >&2
    wrong=1
  elif [ "$sum" != "$wanted" ]; then
    echo "check-mirror: $url has SHA-1 $sum, deps.txt says $wanted" >&2
    wrong=1
  fi
done < <(find "$mirror" \( -type f -o -type l \) -print0)

if [ "$count" -eq 0 ]; then
  echo "check-mirror: $mirror is empty" >&2
  exit 1
fi
exit "$wrong"
