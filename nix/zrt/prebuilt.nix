# zrt on the official prebuilt library, for apps and shells. Its tests are a separate check.
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
