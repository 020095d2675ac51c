/**
 * What stored texts of plans say, written for readers: parts of tensors, copies, dimension orders.
 * @module notations
 */

const WINDOW = /@(\d+):(-?\d+):(-?\d+):(-?\d+):(-?\d+):(-?\d+)/g;

/**
 * A sharding with what is needed of a dimension in words: `[gpu.0 (0–63 of 128), -]`.
 * @param {string} text
 */
export function readableSharding(text) {
  return text.replace(WINDOW, (_, count, stride, _offset, extent, low, high) => {
    const range = Number(high) - 1 > Number(low) ? `${low}–${Number(high) - 1}` : low;
    const isSlice = Math.abs(Number(stride)) < 2 && extent === "1";
    return isSlice ? ` (${range} of ${count})` : ` (${range} in windows of ${extent}, one every ${Math.abs(Number(stride))})`;
  });
}

/**
 * The name of what a device holds: that of a tensor, or of a copy of it with its sharding: `n13 as [gpu.0 (0–63 of 128), -]`.
 * @param {string} name
 */
export function readableBuffer(name) {
  return readableSharding(name.replace(/>(?=\[)/, " as ")).replace(/\](\{[^}]*\})/, (_, order) => `], ${orderText(order)}`);
}

/**
 * A dimension order such as `{3*2,1,0}` in words: `dimensions 3·2, 1, 0 from the fastest`; the empty one is the program's.
 * @param {string} order
 */
export function orderText(order) {
  const names = /^\{(.*)\}$/.exec(order)?.[1];
  if (names === undefined) return order || "the program's order";
  return `dimensions ${names.replaceAll(",", ", ").replaceAll("*", "·")} from the fastest`;
}

/**
 * What a move chose, in words where that is a dimension order.
 * @param {string} rule @param {string} choice such as `0:{3*2,1,0}`
 */
export function choiceText(rule, choice) {
  const [, place, order] = /^(\d+):(\{[^}]*\})?$/.exec(choice) ?? [];
  if (place === undefined || !["store_as", "read_as"].includes(rule)) return choice;
  return `${rule === "store_as" ? "output" : "input"} ${place}: ${orderText(order ?? "")}`;
}
