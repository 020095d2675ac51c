/**
 * What was checked of a plan: predicted beside counted.
 * @module verification
 */

import { checkChip, checksOf } from "./badges.js";
import { element, fill } from "./dom.js";
import { isEnded } from "./run-state.js";
import { explained, figure, numberHead, rowOf, scrolling, tableOf } from "./tables.js";
import { plain } from "./units.js";

const METHODS = { simulated: "while the plan ran with numbers", dry: "without numbers" };

/**
 * Why a plan is not verified, and whether it will be.
 * @param {{status: string, unchecked_because: string | null}} frontier of its run
 */
function uncheckedText({ status, unchecked_because: reason }) {
  if (!isEnded(status)) return "Not verified: a run verifies its plans once its search is over, as far as its deadline allows.";
  if (status === "cancelled") return "Not verified, and it will not be: its run was cancelled before.";
  return `Not verified, and it will not be: its run has ended${reason ? ` (${reason})` : ""}.`;
}

/** @param {Element} place @param {any} verified @param {any} frontier of its run */
export function showVerification(place, verified, frontier) {
  if (!verified) return fill(place, element("p", { class: "empty" }, uncheckedText(frontier)));
  const { sharding, memory, traffic, values } = verified;
  const words = checksOf(verified).map((check) => element("li", {}, checkChip(check), ` ${check.why}`));
  const rows = [
    ["peak memory", "peak_memory_bytes", memory],
    ["traffic", "traffic_bytes", traffic],
  ].map(([title, name, { predicted, counted }]) =>
    rowOf(explained(title, `cost: ${name}`), [
      figure(plain(predicted), predicted, "B"),
      figure(plain(counted), counted, "B"),
      element("td", {}, predicted === counted ? "✓ equal" : element("span", { class: "fault" }, "different")),
    ]),
  );
  const heads = ["", numberHead("predicted", "B"), numberHead("counted", "B"), ""];
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
    scrolling(tableOf(heads, rows, "Predicted and counted bytes")),
    element(
      "p",
      { class: "muted small" },
      `Counted ${METHODS[/** @type {keyof METHODS} */ (memory.method)] ?? memory.method}.`,
    ),
    errors.length
      ? element(
          "p",
          { class: "muted small" },
          `Largest error of the outputs, of the largest value: ${errors.join(", ")}`,
        )
      : null,
  );
}
