# overlays.onnxruntime: overlays.default and, in every Python package set, zrt in the place of onnxruntime.
final: prev:
let
  zrt = import ./overlay.nix final prev;
in
zrt
// {
  pythonPackagesExtensions = zrt.pythonPackagesExtensions ++ [
    (python: _: {
      onnxruntime = import ./zrt-onnxruntime {
        pkgs = final;
        inherit (python) python;
        zrt = python.zrt-onnx;
      };
    })
  ];
}
