# zrt on the official prebuilt library: what is run and entered often. Its tests are a check of their own.
{
  pkgs,
  # This system's packages.
  packages,
  doCheck ? false,
}:
import ./. {
  inherit pkgs doCheck;
  onnxruntime = packages.onnxruntime-bin;
}
