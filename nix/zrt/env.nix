# lib.mkZrtEnv: inputs and variables for builds in other languages, and shells, that link ONNX Runtime.
{
  # The package set to build with.
  pkgs,
  # The release of ONNX Runtime; see mkOnnxruntime.
  version ? null,
  # With the CUDA provider.
  cuda ? false,
  # The result of mkOnnxruntime, or another package with the same passthru.
  onnxruntime ? import ../onnxruntime { inherit pkgs version cuda; },
}@arguments:
let
  inherit (pkgs) lib;
  shared = onnxruntime.linkage == "shared";
in
assert import ./check-engine.nix {
  inherit lib arguments onnxruntime;
  engineArguments = [ "version" ];
};
{
  inherit onnxruntime;

  # For mkShell or mkDerivation: headers, library and the .pc file.
  nativeBuildInputs = [ pkgs.pkg-config ];
  buildInputs = [ onnxruntime ];

  # Environment variables; the first two are those of the Rust crate ort.
  env = {
    ORT_LIB_LOCATION = onnxruntime.libDir;
    ORT_PREFER_DYNAMIC_LINK = if shared then "1" else "0";
    ZRT_ORT_INCLUDE_DIR = onnxruntime.includeDir;
    ZRT_ORT_LINK_ARGS = lib.concatStringsSep " " onnxruntime.linkArgs;
  };

  # Names the providers, for programs that need them beside their binary.
  shellHook = ''
    export ZRT_ORT_PROVIDERS=${lib.escapeShellArg (lib.concatStringsSep ":" onnxruntime.providers)}
  '';
}
