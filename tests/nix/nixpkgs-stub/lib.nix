# The functions of nixpkgs' lib that this flake calls; each behaves like the original.
let
  inherit (builtins)
    any
    concatStringsSep
    elem
    isAttrs
    replaceStrings
    substring
    stringLength
    toString
    ;

  hasPrefix = prefix: text: substring 0 (stringLength prefix) text == prefix;
  hasSuffix =
    suffix: text:
    stringLength text >= stringLength suffix
    && substring (stringLength text - stringLength suffix) (stringLength suffix) text == suffix;

  characters = text: builtins.genList (index: substring index 1 text) (stringLength text);

  # A file set is a predicate over absolute paths of files.
  toSet =
    value:
    if isAttrs value then
      value
    else
      {
        contains = file: file == toString value || hasPrefix "${toString value}/" file;
      };
in
rec {
  inherit hasPrefix hasSuffix;
  inherit (builtins)
    all
    any
    concatStringsSep
    filter
    isBool
    isList
    ;

  genAttrs =
    names: make:
    builtins.listToAttrs (
      map (name: {
        inherit name;
        value = make name;
      }) names
    );
  mapAttrsToList = make: set: map (name: make name set.${name}) (builtins.attrNames set);

  optional = condition: value: if condition then [ value ] else [ ];
  optionals = condition: values: if condition then values else [ ];
  optionalString = condition: text: if condition then text else "";
  optionalAttrs = condition: set: if condition then set else { };

  toLower = replaceStrings (characters "ABCDEFGHIJKLMNOPQRSTUVWXYZ") (
    characters "abcdefghijklmnopqrstuvwxyz"
  );
  unique = builtins.foldl' (seen: value: if elem value seen then seen else seen ++ [ value ]) [ ];
  subtractLists = taken: builtins.filter (value: !(elem value taken));

  concatMapStrings = make: values: concatStringsSep "" (map make values);
  removeSuffix =
    suffix: text:
    if hasSuffix suffix text then
      substring 0 (stringLength text - stringLength suffix) text
    else
      text;

  removePrefix =
    prefix: text:
    if hasPrefix prefix text then substring (stringLength prefix) (stringLength text) text else text;
  escapeShellArg =
    value:
    let
      text = toString value;
    in
    if builtins.match "[[:alnum:],._+:@%/-]+" text != null then
      text
    else
      "'${replaceStrings [ "'" ] [ "'\\''" ] text}'";
  escapeShellArgs = values: concatStringsSep " " (map escapeShellArg values);

  versionOlder = a: b: builtins.compareVersions b a == 1;
  versionAtLeast = a: b: !(versionOlder a b);

  assertMsg = condition: message: condition || throw message;
  assertOneOf =
    name: value: values:
    assertMsg (elem value values) "${name} must be one of ${concatStringsSep ", " values}, but is: ${value}";

  importTOML = file: fromTOML (builtins.readFile file);

  getOutput = output: package: package.${output} or package;
  getLib = getOutput "lib";
  getDev = getOutput "dev";
  getBin = getOutput "bin";
  getName = package: package.pname or package.name;
  getExe = package: "${getBin package}/bin/${package.meta.mainProgram or (getName package)}";

  licenses = {
    asl20.free = true;
    mit.free = true;
    unfreeRedistributable.free = true;
    nvidiaCuda.free = false;
  };
  sourceTypes.binaryNativeCode.isSource = false;

  fileset = {
    unions = sets: { contains = file: any (set: (toSet set).contains file) sets; };
    difference = a: b: { contains = file: (toSet a).contains file && !((toSet b).contains file); };
    fileFilter = predicate: root: {
      contains =
        file:
        (toSet root).contains file && predicate { hasExt = extension: hasSuffix ".${extension}" file; };
    };
    toSource =
      { root, fileset }:
      let
        wanted = toSet fileset;
        # Include a folder if the set has a file anywhere below it.
        holds =
          folder:
          any (
            name:
            let
              path = "${folder}/${name}";
            in
            if (builtins.readDir folder).${name} == "directory" then holds path else wanted.contains path
          ) (builtins.attrNames (builtins.readDir folder));
      in
      builtins.path {
        path = root;
        name = "source";
        filter = path: type: if type == "directory" then holds path else wanted.contains path;
      };
  };
}
