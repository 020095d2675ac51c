/**
 * Names of blocks and tensors without what differs from layer to layer.
 * @module site-names
 */

const DIGEST = /(~\w+)\.[0-9a-f]{8}\b/g; // of a block that rewriting made

/**
 * What equal blocks of equal layers have in common in their names: `h.*.mlp` of `h.3.mlp`, `node_add` of `node_add_7`. The
 * service does the same in comparisons of plans.
 * @param {string} site
 */
export function nameWithoutNumbers(site) {
  return site
    .replace(DIGEST, "$1")
    .replace(/\d+/g, "*")
    .replace(/_\*(?=$|\.)/, "")
    .replace(/_\*$/, "");
}

/**
 * What several names have in common, or where that says too little, as it is with numbers alone, the first of them.
 * @param {string[]} names that are alike but for their numbers @param {boolean} [isAmbiguous] whether others have that in common, too
 */
export function nameOfAlike(names, isAmbiguous = false) {
  return names.length < 2 || isAmbiguous ? names[0] : commonName(names[0]);
}

/** A name without what differs from layer to layer; with it where the rest says too little. @param {string} name */
export function commonName(name) {
  const common = nameWithoutNumbers(name);
  return /[A-Za-z].*[A-Za-z]/.test(common) ? common : name;
}
