#!/bin/bash
# Makes a library of the CUDA set out of links: library.sh FOLDER DISTRIBUTION...
# shellcheck disable=SC2154
set -euo pipefail
folder=$1
shift

mkdir -p "$out" "$dev/include" "$dev/nix-support" "$lib/lib"
for distribution; do
  record=$(echo "$folder/$distribution"-*.dist-info/RECORD)
  if [ ! -e "$record" ]; then
    echo "$name: pip has not installed $distribution into $folder" >&2
    exit 1
  fi
  while IFS=, read -r file _; do
    case $file in
      # nixpkgs too takes them out of that folder.
      nvidia/*/include/cccl/*) link=$dev/include/${file#nvidia/*/include/cccl/} ;;
      nvidia/*/include/*) link=$dev/include/${file#nvidia/*/include/} ;;
      nvidia/*/lib/*) link=$lib/lib/${file#nvidia/*/lib/} ;;
      *) continue ;;
    esac
    [ -d "${link%/*}" ] || mkdir -p "${link%/*}"
    ln -sf "$folder/$file" "$link"
  done <"$record"
done
# A current glibc declares these functions with `noexcept`; nixpkgs changes the header in the same way.
math=$dev/include/crt/math_functions.h
if [ -e "$math" ]; then
  sed -i -E 's/((rsqrt|sinpi|cospi)f?\((double|float) x\));/\1 noexcept (true);/' "$math"
fi
# The names that linkers look for.
for library in "$lib"/lib/lib*.so.*; do
  ln -s "$(basename "$library")" "${library%.so.*}.so"
done
echo "$out $lib" >"$dev/nix-support/propagated-build-inputs"

if [ "${name%%-*}" = cuda_cudart ]; then
  # For linkers, in place of the driver's library: its functions, which do nothing.
  mkdir "$lib/lib/stubs"
  gcc -E -P "$dev/include/cuda.h" | grep -oE '^CUresult +cu\w+' | sort -u |
    sed 's/CUresult *\(.*\)/int \1(void) { return 999; }/' >stub.c
  gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$lib/lib/stubs/libcuda.so" stub.c
fi
