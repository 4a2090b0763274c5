# The development shells of one system.
{
  pkgs,
  # The package set of the CUDA outputs.
  cudaPkgs,
  # This system's packages.
  packages,
}:
let
  inherit (pkgs) lib;
  mkShell = import ./shell.nix;
in
rec {
  default = cpu;
  cpu = mkShell {
    inherit pkgs;
    name = "cpu";
    onnxruntime = packages.onnxruntime-bin;
    next = [
      "pytest"
      "zrt bench"
      "pytest benches"
    ];
  };
  source = mkShell {
    inherit pkgs;
    name = "source";
    onnxruntime = packages.onnxruntime-cpu;
    next = [
      "pytest"
      "zrt bench"
    ];
  };
}
// lib.optionalAttrs (packages ? zrt-cuda) {
  cuda = mkShell {
    pkgs = cudaPkgs;
    name = "cuda";
    onnxruntime = packages.onnxruntime-bin-cuda;
    next = [
      "pytest"
      "zrt bench --provider cuda"
    ];
  };
}
