# A set of CUDA packages in the shape of nixpkgs' cudaPackages, made of NVIDIA's Python packages on the machine.
{
  lib,
  stdenv,
  version,
  # The folder that pip put the packages into; a part whose packages are not there is not built.
  installed ? "/opt/nvidia",
}:
let
  # Parts are links into that folder: of other packages there, others are built.
  requirements = ./cuda/requirements.txt;

  # Each part has the headers in `dev` and the libraries in `lib`.
  library =
    pname: distributions:
    stdenv.mkDerivation {
      inherit pname version;
      meta.license = lib.licenses.nvidiaCuda;
      outputs = [
        "out"
        "dev"
        "lib"
      ];
      inherit requirements;
      buildCommand = "bash ${./cuda/library.sh} ${installed} ${toString distributions}";
    };
in
builtins.mapAttrs library {
  cuda_cccl = [ "nvidia_cuda_cccl" ];
  cuda_cudart = [
    "nvidia_cuda_runtime"
    "nvidia_cuda_crt"
  ];
  cuda_nvrtc = [ "nvidia_cuda_nvrtc" ];
  cudnn = [ "nvidia_cudnn_cu13" ];
  libcublas = [ "nvidia_cublas" ];
  libcufft = [ "nvidia_cufft" ];
  libcurand = [ "nvidia_curand" ];
}
// {
  cuda_nvcc = stdenv.mkDerivation {
    pname = "cuda_nvcc";
    inherit version;
    meta.license = lib.licenses.nvidiaCuda;
    inherit requirements;
    buildCommand = "bash ${./cuda/nvcc.sh} ${installed} ${./cuda/setup-hook.sh}";
  };
  cudaMajorMinorVersion = version;
  backendStdenv = stdenv;
}
