/**
 * What was checked of a plan: predicted beside counted.
 * @module verification
 */

import { checkChip, checksOf } from "./badges.js";
import { element, fill } from "./dom.js";
import { plain, quantity } from "./units.js";

const METHODS = { simulated: "while the plan ran with numbers", dry: "without numbers" };

const LEAST_CERTAIN = 3;

/**
 * How certain the time is; nothing for a plan that was verified without it, or by another cost model.
 * @param {any} verified
 */
function timeNote({ time, cost_model }) {
  if (!time || cost_model) return null;
  const classes = time.classes
    .slice(0, LEAST_CERTAIN)
    .map((/** @type {any} */ each) => `${each.name} (${quantity(each.seconds, "s")}, ±${plain(100 * each.error)} %)`);
  const interval = `${quantity(time.low, "s")} to ${quantity(time.high, "s")}`;
  return element(
    "p",
    { class: "small", id: "time-interval" },
    `Median time: ${quantity(time.seconds, "s")}, ${interval} with a probability of ${plain(100 * time.probability)} %. Least certain: ${classes.join(", ")}.`,
  );
}

/** @param {Element} place @param {any} verified */
export function showVerification(place, verified) {
  if (!verified) {
    return fill(
      place,
      element("p", { class: "empty" }, "Not verified: a run verifies its plans once its search is over, as far as its deadline allows."),
    );
  }
  const { sharding, memory, traffic, values } = verified;
  const words = checksOf(verified).map((check) => element("li", {}, checkChip(check), ` ${check.why}`));
  const rows = [
    ["peak memory", memory],
    ["traffic", traffic],
  ].map(([name, { predicted, counted }]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      element("td", { class: "number" }, plain(predicted)),
      element("td", { class: "number" }, plain(counted)),
      element("td", {}, predicted === counted ? "✓ equal" : element("span", { class: "fault" }, "different")),
    ),
  );
  const head = ["", "predicted, B", "counted, B", ""].map((name, k) =>
    element("th", { scope: "col", class: k === 1 || k === 2 ? "number" : "" }, name),
  );
  const errors = Object.entries(values?.max_error ?? {}).map(
    ([sink, error]) => `${sink}: ${error === null ? "not there" : Number(error).toExponential(1)}`,
  );
  fill(
    place,
    element("ul", { class: "checks" }, words),
    sharding.issues.length
      ? element(
          "ul",
          { class: "fault" },
          sharding.issues.map((/** @type {string} */ issue) => element("li", {}, issue)),
        )
      : null,
    element(
      "div",
      { class: "table-frame" },
      element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)),
    ),
    element(
      "p",
      { class: "muted small" },
      `Counted ${METHODS[/** @type {keyof METHODS} */ (memory.method)] ?? memory.method}.`,
    ),
    timeNote(verified),
    errors.length
      ? element(
          "p",
          { class: "muted small" },
          `Largest error of the outputs, of the largest value: ${errors.join(", ")}`,
        )
      : null,
  );
}
