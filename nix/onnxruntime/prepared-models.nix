# What an engine made for models is made of, by zrt on the full engine of the same release: the list of the operators
# that they need, required-operators, and each model in ONNX Runtime's own form, NAME.ort for NAME.onnx.
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
let
  inherit (pkgs) lib;
  prepare = model: ''
    zrt compile ${lib.escapeShellArg "${model}"} list --required-operators --overwrite
    cat list >>"$out/required-operators"
    zrt compile ${lib.escapeShellArg "${model}"} "$out"/${
      lib.escapeShellArg (lib.removeSuffix ".onnx" (baseNameOf model) + ".ort")
    }
  '';
in
pkgs.runCommand "prepared-models" { nativeBuildInputs = [ zrt ]; } ''
  mkdir "$out"
  ${lib.concatMapStrings prepare models}
''
