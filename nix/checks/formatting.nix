# nixfmt over every Nix file.
{
  pkgs,
}:
let
  inherit (pkgs) lib;
  source = lib.fileset.toSource {
    root = ../..;
    fileset = lib.fileset.unions [
      ../../flake.nix
      (lib.fileset.fileFilter (file: file.hasExt "nix") ../.)
    ];
  };
in
pkgs.runCommand "zrt-formatting" { nativeBuildInputs = [ pkgs.nixfmt ]; } ''
  find ${source} -name '*.nix' -exec nixfmt --check {} +
  touch "$out"
''
