# A set of CUDA packages: they have names, versions and licences, and are empty.
{
  lib,
  stdenv,
  version,
}:
let
  part =
    name:
    stdenv.mkDerivation {
      pname = name;
      inherit version;
      meta.license = lib.licenses.nvidiaCuda;
      buildCommand = "exit 1";
    };
in
lib.genAttrs [
  "cuda_cccl"
  "cuda_cudart"
  "cuda_nvcc"
  "cuda_nvrtc"
  "cudnn"
  "libcublas"
  "libcufft"
  "libcurand"
] part
// {
  cudaMajorMinorVersion = version;
  backendStdenv = stdenv;
}
