#!/usr/bin/env bash
# Fails where a file of a CPU output names a CUDA package, or where it carries the CUDA provider: check-no-cuda.sh FOLDER
set -euo pipefail
folder=$1

provider=$(find "$folder" -name 'libonnxruntime_providers_cuda*' -print -quit)
if [ -n "$provider" ]; then
  echo "check-no-cuda: $provider is in a CPU output" >&2
  exit 1
fi
pattern='/nix/store/[0-9a-z]{32}-[[:alnum:]+._?=-]*(cuda|cudnn|cublas|nvidia)[[:alnum:]+._?=-]*'
# Status 1 is that of no match.
named=$(LC_ALL=C grep -raoE -m 1 "$pattern" "$folder") || [ $? -eq 1 ]
if [ -n "$named" ]; then
  echo "check-no-cuda: in a CPU output ${named//:\/nix\// names /nix/}" >&2
  exit 1
fi
