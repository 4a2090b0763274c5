#!/usr/bin/env bash
# Fails unless the CUDA provider will find the driver, and only that, outside the store: check-cuda.sh LIB_FOLDER NVCC
set -euo pipefail
folder=$1
nvcc=$2
provider=$folder/libonnxruntime_providers_cuda.so

runpath=$(patchelf --print-rpath "$provider")
case ":$runpath:" in
  *:/run/opengl-driver/lib:*) ;;
  *)
    echo "check-cuda: the provider's run path lacks the driver's folder: $runpath" >&2
    exit 1
    ;;
esac
case $runpath in
  *stubs*)
    echo "check-cuda: the provider's run path holds stubs: $runpath" >&2
    exit 1
    ;;
esac
if grep -qF "$nvcc" "$folder"/*.so; then
  echo "check-cuda: a provider still names the compiler $nvcc" >&2
  exit 1
fi
