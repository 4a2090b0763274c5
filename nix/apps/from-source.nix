# An app over a package that takes long to build: it says so first, then builds it, then runs it.
{
  pkgs,
  # The app's name.
  name,
  # The package with bin/zrt.
  package,
  # The cost of the build, in one sentence.
  notice,
  # Shell code that runs before anything is built.
  before ? "",
  # Arguments of `zrt`, ahead of the user's.
  arguments ? [ "bench" ],
}:
let
  inherit (pkgs) lib;
  # The recipe without its result: building the app builds nothing else.
  recipe = builtins.unsafeDiscardOutputDependency package.drvPath;
  result = builtins.unsafeDiscardStringContext package.outPath;
in
pkgs.writeShellApplication {
  inherit name;
  text = ''
    ${before}
    if [ ! -e ${result} ]; then
      echo ${lib.escapeShellArg "${name}: ${notice}"} >&2
      nix-store --realise ${recipe} >/dev/null
    fi
    exec ${result}/bin/zrt ${lib.escapeShellArgs arguments} "$@"
  '';
}
