# The sources and the tests of the Python package. A change to any other file rebuilds nothing.
{
  lib,
}:
lib.fileset.toSource {
  root = ../..;
  fileset = lib.fileset.unions [
    ../../pyproject.toml
    ../../README.md
    ../../LICENSE
    ../../benches
    (lib.fileset.difference ../../tests (
      lib.fileset.unions [
        # These are about the flake and about the pages of the guide.
        ../../tests/nix
        ../../tests/docs
      ]
    ))
    # A module built in place stays where it is.
    (lib.fileset.fileFilter (file: !file.hasExt "so") ../../zrt)
  ];
}
