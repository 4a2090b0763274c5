# zrt as the Python package onnxruntime: its module is zrt.onnxruntime, its version that of the engine.
{
  # The package set to build with.
  pkgs,
  # The interpreter to build for.
  python ? pkgs.python3,
  # The result of mkZrt for that interpreter.
  zrt ? import ../zrt { inherit pkgs python; },
}:
let
  inherit (pkgs) lib;
  inherit (zrt.onnxruntime) version;
in
python.pkgs.buildPythonPackage {
  pname = "onnxruntime";
  inherit version;
  pyproject = true;

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./engine_version.py
      ./hatch_build.py
      ./pyproject.toml
      ./onnxruntime
    ];
  };
  env.ZRT_ENGINE_VERSION = version;

  build-system = [ python.pkgs.hatchling ];
  dependencies = [ zrt ];

  pythonImportsCheck = [
    "onnxruntime"
    "onnxruntime.capi.onnxruntime_pybind11_state"
  ];

  passthru = {
    inherit zrt;
  };

  meta = {
    description = "zrt in the place of the onnxruntime package";
    license = lib.licenses.asl20;
    inherit (zrt.meta) platforms;
  };
}
