# shellcheck shell=bash disable=SC2154
# Like nixpkgs' hook: tells CMake where the parts of the toolkit are, and which compiler nvcc calls.
for input in $nativeBuildInputs $libraries; do
  case $input in
    *-cuda_* | *-cudnn-* | *-libcu*) CUDAToolkit_ROOT=${CUDAToolkit_ROOT:+$CUDAToolkit_ROOT;}$input ;;
  esac
done
CUDAHOSTCXX=$TMPDIR/compilers/g++
export CUDAToolkit_ROOT CUDAHOSTCXX
cmakeFlags+=" -DCUDAToolkit_ROOT=$CUDAToolkit_ROOT"
