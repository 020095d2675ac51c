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
