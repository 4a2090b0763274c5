# lib.mkOnnxruntime: ONNX Runtime from source (source.nix), or the official library (bin.nix).
{
  # The official library in the place of one from source.
  prebuilt ? false,
  # What source.nix or bin.nix takes.
  ...
}@arguments:
import (if prebuilt then ./bin.nix else ./source.nix) (removeAttrs arguments [ "prebuilt" ])
