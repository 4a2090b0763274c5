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
  # Every Python file, every script that ends in .sh, and pyproject.toml.
  src = lib.fileset.toSource {
    root = ../..;
    fileset = lib.fileset.fileFilter (
      file:
      lib.any file.hasExt [
        "py"
        "pyi"
        "sh"
        "toml"
      ]
    ) ../..;
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
