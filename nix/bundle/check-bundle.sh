#!/usr/bin/env bash
# Fails where a file of the folder, or a link, names something in a Nix store: check-bundle.sh FOLDER
set -euo pipefail
folder=$1

# Store hashes have no letter e, so the pattern does not match the eeee… that nuke-refs writes.
pattern='/nix/store/[0-9a-df-np-sv-z]{32}-[[:alnum:]+._?=-]+'

wrong=0
while IFS= read -r -d '' file; do
  named=$(LC_ALL=C grep -aoE -m 1 "$pattern" "$file" | head -n 1) || true
  if [ -n "$named" ]; then
    echo "check-bundle: $file names $named" >&2
    wrong=1
  fi
done < <(find "$folder" -type f -print0)

while IFS= read -r -d '' link; do
  case $(readlink "$link") in
    /*)
      echo "check-bundle: $link leads to $(readlink "$link")" >&2
      wrong=1
      ;;
  esac
done < <(find "$folder" -type l -print0)
exit "$wrong"
