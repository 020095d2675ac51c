/**
 * Searches in values that ascend.
 * @module charts/ordered
 */

/** The number of the last value up to a limit; -1 before the first. @param {ArrayLike<number>} values @param {number} limit */
export function lastUpTo(values, limit) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
