# The linters over the Python package and the scripts of the flake.
{
  pkgs,
}:
let
  inherit (pkgs) lib;
  python = pkgs.python3.withPackages (
    packages: with packages; [
      cffi
      ml-dtypes
      mypy
      numpy
      rich
    ]
  );
  scripts = lib.fileset.toSource {
    root = ../..;
    fileset = lib.fileset.fileFilter (file: file.hasExt "sh") ../../nix;
  };
in
pkgs.runCommand "zrt-lints"
  {
    nativeBuildInputs = [
      pkgs.ruff
      pkgs.shellcheck
      python
    ];
    src = import ../zrt/source.nix { inherit lib; };
  }
  ''
    cp -r "$src" source
    chmod -R u+w source
    cd source
    ruff check --no-cache .
    ruff format --no-cache --check .
    mypy --cache-dir="$TMPDIR/mypy"
    find ${scripts} -name '*.sh' -exec shellcheck {} +
    touch "$out"
  ''
