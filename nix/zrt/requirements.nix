# The Python packages that pyproject.toml requires, from a Python package set. Add new ones only there.
{
  lib,
  # The interpreter whose package set they come from.
  python,
}:
let
  inherit (lib.importTOML ../../pyproject.toml) build-system dependency-groups project;
  extras = project.optional-dependencies;

  # `onnxruntime` takes the place of the official binding. nixpkgs has the others as programs, not as Python packages;
  # of these the checks of the flake run ruff, and the tests that need another one skip.
  leftOut = [
    "clang-format"
    "onnxruntime"
    "pyright"
    "ruff"
    "ziglang"
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
  # The build requirements.
  build = packages build-system.requires;
  # The run-time requirements, including those of the command's tables and progress bars.
  run = packages (project.dependencies ++ extras.cli);
  # Further requirements of tests, benches, plots and linters.
  develop = packages (extras.plot ++ dependency-groups.dev);
}
