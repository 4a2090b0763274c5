#!/usr/bin/env bash
# Fails unless the extension is fit to ship with a core of its own: check-extension.sh EXTENSION
set -euo pipefail
extension=$1
readelf=${READELF:-readelf}

fail() {
  echo "check-extension: $extension: $*" >&2
  exit 1
}

# Current glibc does not load libraries that need an executable stack.
"$readelf" -lW "$extension" | awk '$1 == "GNU_STACK" { found = $7 } END { exit found != "RW" }' ||
  fail "its stack is not RW"

exported=$("$readelf" --dyn-syms -W "$extension" |
  awk '$5 != "LOCAL" && $6 == "DEFAULT" && $7 != "UND" && $8 != "" { print $8 }')
[ "$exported" = PyInit__ort ] || fail "it exports ${exported//$'\n'/ }"

# Read whole: a pipe into grep -q counts as failed, that is as no match, where grep leaves first (pipefail).
dynamic=$("$readelf" -dW "$extension")
if grep -q 'NEEDED.*libonnxruntime' <<<"$dynamic"; then
  fail "it needs a libonnxruntime of its own"
fi
