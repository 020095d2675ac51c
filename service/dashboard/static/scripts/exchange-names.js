/**
 * Names of exchanges, the same in all views.
 * @module exchange-names
 */

const KIND_NAMES = {
  all_gather: "all-gather",
  all_reduce: "all-reduce",
  reduce_scatter: "reduce-scatter",
  all_to_all: "all-to-all",
  broadcast: "broadcast",
  fetch: "fetch of pieces",
  send_recv: "pieces between pairs",
  send: "send between stages",
};

/** @param {string} kind such as `reduce_scatter+all_gather` or `all_gather on gpu`; other kinds stay as they are */
export function kindText(kind) {
  return kind
    .split(/ ?\+ ?/)
    .map((one) => {
      const [name, ...places] = one.split(" on ");
      return [KIND_NAMES[/** @type {keyof typeof KIND_NAMES} */ (name)] ?? name, ...places].join(" on ");
    })
    .join(" + ");
}
