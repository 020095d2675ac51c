/**
 * What a plan took where it really ran, as it was reported; beside each time, its difference from the predicted one.
 * @module plan/measured
 */

import { remove } from "../api.js";
import { copyable } from "../copying.js";
import { byId, element, fill } from "../dom.js";
import { errorNotice } from "../notice.js";
import { figure, figureOf, numberHead, rowOf, shareOf, showTable } from "../tables.js";
import { clock, percent } from "../units.js";
import { differenceText } from "./timeline-tables.js";

/** @param {any} plan @param {(plan: any) => void} onChange after one was deleted */
export function showMeasured(plan, onChange) {
  const place = byId("measured");
  if (!plan.measurements.length) {
    const how = element("div", { class: "muted small" }, "Not measured yet. On a host that has its devices:");
    return fill(place, how, copyable(`tapestry validate --plan ${plan.id} --save`, "the command"));
  }
  const { time } = plan;
  const rows = plan.measurements.map((/** @type {any} */ one) => {
    const isInside = time && time.low <= one.seconds && one.seconds <= time.high;
    const inside = time ? `, ${isInside ? "inside" : "outside"} the ${percent(time.probability)} interval` : "";
    const drop = element("button", { class: "button small bare", type: "button", "aria-label": `Delete the measurement of ${clock(one.created_at)}` }, "Delete");
    drop.addEventListener("click", async () => {
      try {
        await remove(`${plan.links.measurements}/${one.id}`);
        onChange({ ...plan, measurements: plan.measurements.filter((/** @type {any} */ each) => each !== one) });
      } catch (error) {
        fill(byId("measured-problem"), errorNotice(error));
      }
    });
    return rowOf(
      [one.measured_on, element("div", { class: "muted small" }, clock(one.created_at))],
      [
        figureOf(one.seconds, "s"),
        one.repeat_error === null ? figure("–", null) : shareOf(one.repeat_error),
        element("td", {}, `${differenceText(one.seconds, plan.cost.time_s)}${inside}`),
        element("td", {}, drop),
      ],
    );
  });
  const heads = ["measured on", numberHead("time", "", "measured: time"), numberHead("repeats within"), "from predicted", ""];
  return showTable(place, heads, rows, "Measured times");
}
