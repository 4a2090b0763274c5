# The linters over the Python package and the scripts of the flake.
{
  pkgs,
}:
let
  inherit (pkgs) lib;
  requirements = import ../zrt/requirements.nix {
    inherit lib;
    python = pkgs.python3;
  };
  python = pkgs.python3.withPackages (_: requirements.run ++ requirements.develop);
  # Every Python file and script, those about the flake and the guide too.
  src = lib.fileset.toSource {
    root = ../..;
    fileset = lib.fileset.unions [
      ../../pyproject.toml
      (lib.fileset.fileFilter (file: file.hasExt "py" || file.hasExt "pyi") ../../benches)
      (lib.fileset.fileFilter (file: file.hasExt "py" || file.hasExt "sh") ../../nix)
      (lib.fileset.fileFilter (file: file.hasExt "py" || file.hasExt "sh") ../../tests)
      (lib.fileset.fileFilter (file: !file.hasExt "so") ../../zrt)
    ];
  };
in
pkgs.runCommand "zrt-lints"
  {
    nativeBuildInputs = [
      pkgs.ruff
      pkgs.shellcheck
      python
    ];
    inherit src;
  }
  ''
    cp -r "$src" source
    chmod -R u+w source
    cd source
    ruff check --no-cache .
    ruff format --no-cache --check .
    mypy --cache-dir="$TMPDIR/mypy"
    find . -name '*.sh' -exec shellcheck {} +
    touch "$out"
  ''
