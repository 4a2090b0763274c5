# The packages of one system.
{
  # The system's nixpkgs, of default configuration.
  pkgs,
  # The same, with the CUDA set's unfree parts allowed; used for CUDA outputs alone.
  cudaPkgs,
}:
let
  inherit (pkgs) lib;
  inherit (pkgs.stdenv.hostPlatform) isLinux isx86_64;
  mkOnnxruntime = import ./onnxruntime;
  mkZrt = import ./zrt;
  mkBundle = import ./bundle;

  cpu = rec {
    onnxruntime-bin = mkOnnxruntime {
      inherit pkgs;
      prebuilt = true;
    };
    onnxruntime-cpu = mkOnnxruntime { inherit pkgs; };
    zrt-cpu = mkZrt {
      inherit pkgs;
      onnxruntime = onnxruntime-cpu;
    };
    default = zrt-cpu;
  };
  cuda = rec {
    onnxruntime-bin-cuda = mkOnnxruntime {
      pkgs = cudaPkgs;
      prebuilt = true;
      cuda = true;
    };
    onnxruntime-cuda-hybrid = mkOnnxruntime {
      pkgs = cudaPkgs;
      cuda = true;
    };
    zrt-cuda = mkZrt {
      pkgs = cudaPkgs;
      onnxruntime = onnxruntime-cuda-hybrid;
    };
    bundle-cuda = mkBundle {
      pkgs = cudaPkgs;
      zrt = zrt-cuda;
    };
  };
in
cpu
// lib.optionalAttrs isLinux {
  bundle-cpu = mkBundle {
    inherit pkgs;
    zrt = cpu.zrt-cpu;
  };
}
// lib.optionalAttrs (isLinux && isx86_64) cuda
