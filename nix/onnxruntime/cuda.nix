# The parts of a CUDA set that the provider is built from, or an error that names what the set lacks.
{
  lib,
  # Such as pkgs.cudaPackages_13; null where nixpkgs has none.
  cudaPackages,
  # A release of nix/pins.nix.
  release,
}:
let
  libraries = [
    "cuda_cudart"
    "cuda_cccl"
    "libcublas"
    "libcurand"
    "libcufft"
    "cuda_nvrtc"
    "cudnn"
  ];
  wanted = "ONNX Runtime ${release.version} wants CUDA ${release.cuda.from} or later, before ${release.cuda.before}";
  missing = lib.filter (name: !(cudaPackages ? ${name})) (libraries ++ [ "cuda_nvcc" ]);
  version = cudaPackages.cudaMajorMinorVersion;
  fits = lib.versionAtLeast version release.cuda.from && lib.versionOlder version release.cuda.before;
in
if cudaPackages == null then
  throw "zrt: this nixpkgs has no CUDA set; ${wanted}: pass cudaPackages"
else if !(cudaPackages ? cudaMajorMinorVersion) then
  throw "zrt: cudaPackages is not a CUDA set of nixpkgs (no cudaMajorMinorVersion in it)"
else if !fits then
  throw "zrt: cudaPackages is CUDA ${version}; ${wanted}"
else if missing != [ ] then
  throw "zrt: cudaPackages (CUDA ${version}) lacks ${lib.concatStringsSep ", " missing}"
else
  {
    inherit (cudaPackages) cuda_nvcc backendStdenv;
    buildInputs = map (name: cudaPackages.${name}) libraries;
  }
