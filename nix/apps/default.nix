# The apps of one system; each says what it does in its description.
{
  pkgs,
  # The package set of the CUDA outputs.
  cudaPkgs,
  # This system's packages.
  packages,
}:
let
  inherit (pkgs) lib;
  zrt = import ../zrt/prebuilt.nix { inherit pkgs packages; };
  app = description: package: {
    type = "app";
    program = lib.getExe package;
    meta = { inherit description; };
  };
in
{
  default = app "Benches zrt on the official prebuilt ONNX Runtime: a minute" (
    pkgs.writeShellApplication {
      name = "bench";
      text = ''
        exec ${lib.getExe zrt} bench "$@"
      '';
    }
  );
  bench-cpu =
    app
      "Benches zrt with ONNX Runtime from source linked in (an hour of compiling on two cores, once)"
      (
        import ./from-source.nix {
          inherit pkgs;
          name = "bench-cpu";
          package = packages.zrt-cpu;
          notice = "builds ONNX Runtime from source: an hour of compiling on two cores, once";
        }
      );
  zrt = app "The zrt command on the official prebuilt ONNX Runtime" zrt;
  update-pins = app "Pins another release of ONNX Runtime for the flake" (
    import ./update-pins.nix { inherit pkgs; }
  );
}
// lib.optionalAttrs (packages ? zrt-cuda) {
  bench-cuda =
    app "Benches zrt on the GPU, ONNX Runtime with CUDA from source (hours of compiling, once)"
      (
        import ./bench-cuda.nix {
          pkgs = cudaPkgs;
          zrt = packages.zrt-cuda;
        }
      );
}
