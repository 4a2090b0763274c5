#!/bin/bash
# Makes the compiler of the CUDA set, with its hook: nvcc.sh FOLDER HOOK
# The programs are copied, since they look for each other, and for nvcc.profile, beside themselves.
# shellcheck disable=SC2016,SC2154
set -euo pipefail
folder=$1
hook=$2

mkdir -p "$out/include" "$out/nix-support"
for distribution in nvidia_cuda_nvcc nvidia_cuda_crt nvidia_nvvm; do
  record=$(echo "$folder/$distribution"-*.dist-info/RECORD)
  if [ ! -e "$record" ]; then
    echo "$name: pip has not installed $distribution into $folder" >&2
    exit 1
  fi
  while IFS=, read -r file _; do
    case $file in
      nvidia/*/bin/* | nvidia/*/include/* | nvidia/*/nvvm/*) ;;
      *) continue ;;
    esac
    copy=$out/${file#nvidia/*/}
    [ -d "${copy%/*}" ] || mkdir -p "${copy%/*}"
    cp "$folder/$file" "$copy"
  done <"$record"
done
# A current glibc declares these functions with `noexcept`; nixpkgs changes the header in the same way.
sed -i -E 's/((rsqrt|sinpi|cospi)f?\((double|float) x\));/\1 noexcept (true);/' "$out/include/crt/math_functions.h"
# Libraries are in lib; where the other parts are is known to the compiler that it calls.
sed -i 's/$(_TARGET_SIZE_)//g; /^SYSTEM_INCLUDES/d' "$out/bin/nvcc.profile"
cp "$hook" "$out/nix-support/setup-hook"
