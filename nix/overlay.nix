# overlays.default: ONNX Runtime and, in every Python package set, zrt-onnx (CPU), from the same files as the flake.
final: prev: {
  zrt-onnxruntime = import ./onnxruntime { pkgs = final; };
  pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [
    (python: _: {
      zrt-onnx = import ./zrt {
        pkgs = final;
        inherit (python) python;
        onnxruntime = final.zrt-onnxruntime;
      };
    })
  ];
}
