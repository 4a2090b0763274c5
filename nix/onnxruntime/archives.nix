# The names of the third-party archives, as in nix/pins.nix, that a target is built from.
{
  # The parts to build, as in flags.nix: each needs archives of its own.
  cuda ? false,
  coreml ? false,
  arm ? false,
  darwin ? false,
}:
let
  optionals = wanted: names: if wanted then names else [ ];
in
[
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
++ optionals cuda [
  "cudnn_frontend"
  "cutlass"
]
++ optionals arm [ "kleidiai" ]
++ optionals coreml [
  "coremltools"
  "fp16"
  "psimd"
]
# Elsewhere protoc is compiled from the pinned protobuf.
++ optionals darwin [ "protoc_mac_universal" ]
