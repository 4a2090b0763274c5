# The folder that CMake takes third-party archives from: each URL of deps.txt as a path, without its scheme.
{
  lib,
  linkFarm,
  fetchurl,
  # The table of nix/pins.nix.
  pins,
  # The parts to build, as in flags.nix: each needs archives of its own.
  cuda ? false,
  coreml ? false,
  arm ? false,
  darwin ? false,
}:
let
  names = [
    "abseil_cpp"
    "date"
    "eigen"
    "flatbuffers"
    "json"
    "microsoft_gsl"
    "mp11"
    "onnx"
    "protobuf"
    "pytorch_cpuinfo"
    "re2"
    "safeint"
  ]
  ++ lib.optionals cuda [
    "cudnn_frontend"
    "cutlass"
  ]
  ++ lib.optional arm "kleidiai"
  ++ lib.optionals coreml [
    "coremltools"
    "fp16"
    "psimd"
  ]
  # Elsewhere protoc is compiled from the pinned protobuf.
  ++ lib.optional darwin "protoc_mac_universal";
in
linkFarm "onnxruntime-${pins.version}-mirror" (
  map (
    archive:
    let
      inherit (pins.archives.${archive}) url sha1;
    in
    {
      name = lib.removePrefix "https://" url;
      path = fetchurl { inherit url sha1; };
    }
  ) names
)
