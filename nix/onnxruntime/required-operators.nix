# The operators that models need, listed by zrt on the full engine of the same release.
{
  pkgs,
  # The release, as in mkOnnxruntime.
  version ? null,
  # Files of models. For one with weights in other files: "${./folder}/model.onnx".
  models,
  # zrt on the full engine.
  zrt ? import ../zrt {
    inherit pkgs version;
    doCheck = false;
  },
}:
pkgs.runCommand "required-operators" { nativeBuildInputs = [ zrt ]; } ''
  for model in ${pkgs.lib.escapeShellArgs (map (model: "${model}") models)}; do
    zrt compile "$model" list --required-operators --overwrite
    cat list >>"$out"
  done
''
