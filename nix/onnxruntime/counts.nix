# How often ONNX Runtime executed each part of its code while zrt ran these models: counts for gcc's -fprofile-use.
{
  pkgs,
  # Files of models, which the engine reads.
  models,
  # zrt on an engine that counts.
  zrt,
}:
let
  inherit (pkgs) lib;
in
pkgs.runCommand "counts" { nativeBuildInputs = [ zrt ]; } ''
  export GCOV_PREFIX=$TMPDIR/counted
  for model in ${lib.escapeShellArgs (map (model: "${model}") models)}; do
    zrt bench "$model" --threads 1 --runs 200
  done
  mkdir -p "$GCOV_PREFIX"
  # They are beside the object files, under the path of the folder in which the engine was built.
  objects=$(find "$GCOV_PREFIX" -path '*/CMakeFiles/onnxruntime_*.dir' -print -quit)
  if [ -z "$objects" ]; then
    echo "zrt: the engine left no counts" >&2
    exit 1
  fi
  mkdir "$out"
  cp -r "''${objects%/*}" "$out/"
''
