# `nix fmt`: every Nix file of the tree.
{
  pkgs,
}:
pkgs.nixfmt-tree
