# What an engine made for models is made of, by zrt on the full engine of the same release: the list of the operators
# that they need, required-operators, and for a minimal one each model in ONNX Runtime's own form, NAME.ort for NAME.onnx.
{
  pkgs,
  # The release, as in mkOnnxruntime.
  version ? null,
  # Files of models. For one with weights in other files: "${./folder}/model.onnx".
  models,
  # Whether the engine reads ONNX Runtime's own form alone.
  minimal ? false,
  # zrt on the full engine.
  zrt ? import ../zrt {
    inherit pkgs version;
    doCheck = false;
  },
}:
let
  inherit (pkgs) lib;
  file = model: lib.escapeShellArg "${model}";
  # The file of a fetched model has a hash before its name.
  ort = model: lib.removeSuffix ".onnx" (model.name or (baseNameOf model)) + ".ort";
  orts = map ort models;
  prepare =
    model:
    ''
      zrt compile ${file model} list --required-operators --overwrite
      cat list >>"$out/required-operators"
    ''
    + lib.optionalString minimal ''
      zrt compile ${file model} "$out"/${lib.escapeShellArg (ort model)}
    '';
in
assert lib.assertMsg (
  minimal -> lib.unique orts == orts
) "zrt: models with one name: ${toString orts} would be files of one folder";
pkgs.runCommand "prepared-models" { nativeBuildInputs = [ zrt ]; } ''
  mkdir "$out"
  ${lib.concatMapStrings prepare models}
''
