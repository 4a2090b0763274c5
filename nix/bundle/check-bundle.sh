#!/usr/bin/env bash
# Fails where a file of the folder, or a link, names something in a Nix store: check-bundle.sh FOLDER
set -euo pipefail
folder=$1

# Store hashes have no letter e, so the pattern does not match the eeee… that nuke-refs writes.
pattern='/nix/store/[0-9a-df-np-sv-z]{32}-[[:alnum:]+._?=-]+'

# Status 1 is that of no match.
named=$(LC_ALL=C grep -raoE -m 1 "$pattern" "$folder") || [ $? -eq 1 ]
links=$(find "$folder" -lname '/*' -printf '%p leads to %l\n')
[ -z "$named" ] || echo "check-bundle: ${named//:\/nix\// names /nix/}" >&2
[ -z "$links" ] || echo "check-bundle: $links" >&2
[ -z "$named$links" ]
