# The machine's Python in the shape of nixpkgs' python3: its packages are those installed on the machine.
{
  lib,
  stdenv,
  runCommand,
  # Functions that add packages, like an overlay's pythonPackagesExtensions.
  extensions,
}:
let
  version = "3.14";
  sitePackages = "lib/python${version}/site-packages";

  # A package of the machine, as python-packages.nix describes it.
  installed =
    name:
    {
      modules ? [ ],
      needs ? [ ],
    }:
    runCommand "python-${name}"
      {
        passthru.dependencies = map (name: packages.${name}) needs;
      }
      ''
        mkdir -p "$out/${sitePackages}"
        for module in ${lib.escapeShellArgs modules}; do
          for path in /usr/lib/python3/dist-packages/"$module"*; do
            ln -sf "$path" "$out/${sitePackages}/"
          done
        done
      '';

  # A package and all its dependencies.
  closure = package: [ package ] ++ builtins.concatMap closure (package.dependencies or [ ]);

  searchPath = lib.concatMapStrings (package: ":${package}/${sitePackages}");

  packages = builtins.mapAttrs installed (import ./python-packages.nix) // {
    inherit python;

    # Empty packages: nothing runs them with the stand-in.
    mypy = installed "mypy" { };
    pytestCheckHook = installed "pytest-check-hook" { };

    buildPythonPackage =
      {
        pname,
        doCheck ? true,
        build-system,
        dependencies,
        nativeCheckInputs ? [ ],
        disabledTestMarks ? [ ],
        pytestFlags ? [ ],
        preCheck ? "",
        pythonImportsCheck ? [ ],
        postFixup ? "",
        passthru ? { },
        ...
      }@attributes:
      stdenv.mkDerivation (
        removeAttrs attributes [
          "pyproject"
          "build-system"
          "dependencies"
          "disabledTestMarks"
          "pytestFlags"
          "pythonImportsCheck"
        ]
        // {
          nativeBuildInputs = [ python ] ++ build-system ++ dependencies ++ nativeCheckInputs;
          passthru = passthru // {
            inherit dependencies;
            pythonModule = python;
          };
          buildPhase = ''
            python3 -m pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir dist .
          '';
          installPhase = ''
            site=$out/${sitePackages}
            python3 -m pip install --quiet --root-user-action=ignore --no-deps --no-index --no-compile \
              --find-links dist --target "$site" ${pname}
            mkdir "$out/bin"
            for script in "$site"/bin/*; do
              { echo '#!/usr/bin/python3 -B'; echo "import sys; sys.path.insert(0, '$site')"; tail -n +2 "$script"; } \
                >"$out/bin/''${script##*/}"
              chmod +x "$out/bin/''${script##*/}"
            done
            rm -rf "$site/bin"
          '';
          installCheckPhase = ''
            export PYTHONPATH=$site${searchPath (builtins.concatMap closure dependencies)}
            # Like nixpkgs' hook for run-time dependencies.
            python3 ${./check-requirements.py} ${pname}
            (cd / && ${lib.concatMapStrings (name: "python3 -c 'import ${name}'; ") pythonImportsCheck} true)
            [ -z "$doCheck" ] || {
              ${preCheck}
              python3 -m pytest -q -p no:cacheprovider ${lib.escapeShellArgs pytestFlags} -m ${
                lib.escapeShellArg (builtins.concatStringsSep " and " (map (mark: "not ${mark}") disabledTestMarks))
              }
            }
          '';
          # In nixpkgs the hook among these inputs runs pytest.
          doCheck = if doCheck && nativeCheckInputs != [ ] then "1" else "";
          doInstallCheck = "1";
        }
      );
  };

  python =
    runCommand "python3-${version}"
      {
        meta.mainProgram = "python3";
        passthru = {
          inherit sitePackages withPackages;
          interpreter = "${python}/bin/python3";
          pythonVersion = version;
          pkgs = builtins.foldl' (
            previous: extend: previous // extend python.pkgs previous
          ) packages extensions;
        };
      }
      ''
        mkdir -p "$out/bin" "$out/lib"
        ln -s "$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" "$out/bin/python3"
        ln -s "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" "$out/lib/python${version}"
      '';

  withPackages =
    choose:
    let
      chosen = builtins.concatMap closure (choose python.pkgs);
    in
    runCommand "python3-env" { meta.mainProgram = "python3"; } ''
      site=$out/${sitePackages}
      mkdir -p "$out/bin" "$site"
      for package in ${toString chosen}; do
        for path in "$package"/${sitePackages}/*; do
          ln -sfn "$path" "$site/"
        done
      done
      printf '#!/bin/bash\nPYTHONPATH=%s exec /usr/bin/python3 -B "$@"\n' "$site" >"$out/bin/python3"
      chmod +x "$out/bin/python3"
      ln -s python3 "$out/bin/python"
    '';
in
python
