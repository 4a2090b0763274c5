# The Python packages that pyproject.toml asks for, out of a Python package set: what is new is added there alone.
{
  lib,
  # The interpreter whose package set they come from.
  python,
}:
let
  inherit (lib.importTOML ../../pyproject.toml) build-system dependency-groups project;
  extras = project.optional-dependencies;

  # `onnxruntime` takes the place of the official binding. nixpkgs has ruff as a program, not as a Python package.
  # No check of the flake runs pyright.
  leftOut = [
    "onnxruntime"
    "pyright"
    "ruff"
  ];
  name =
    requirement:
    lib.toLower (
      builtins.replaceStrings [ "_" ] [ "-" ] (
        builtins.head (builtins.match "([[:alnum:]._-]+).*" requirement)
      )
    );
  packages =
    requirements:
    map (
      name:
      python.pkgs.${name} or (throw "zrt: pyproject.toml asks for ${name}, which this Python set lacks")
    ) (lib.subtractLists leftOut (lib.unique (map name requirements)));
in
{
  # What builds the package.
  build = packages build-system.requires;
  # What it imports, the command's tables and progress bars included.
  run = packages (project.dependencies ++ extras.cli);
  # What tests, benches, pictures and linters need besides.
  develop = packages (extras.plot ++ dependency-groups.dev);
}
