/**
 * The plans of a frontier as a table that is sorted by a click and changes in place.
 * @module plan-table
 */

import { addressedOrder, keepOrder } from "./address.js";
import { pages } from "./api.js";
import { checkSigns, markChip, originChip } from "./badges.js";
import { asCard, asCards } from "./cards.js";
import { frontierRows } from "./csv.js";
import { element, fill } from "./dom.js";
import { originText, originWord, sourceOf, stagesText } from "./marks.js";
import { inOrder, showSortHeads, sortedTable } from "./tables.js";
import { leadCell } from "./time-errors.js";
import { column, plain } from "./units.js";
import { usedDevices } from "./used-devices.js";

/** @typedef {import("./marks.js").Plan} Plan */
/** @typedef {{name: string, unit: string, title: string}} Objective */
/** @typedef {{key: string, title: string, unit: string, form?: string, isNumber: boolean, about?: string, under?: import("./tables.js").Under,
 *   value: (plan: Plan) => number | string, cell: (plan: Plan) => any}} Column */

/** @type {Column} */
const DEVICES = {
  key: "devices",
  title: "devices",
  unit: "",
  isNumber: false,
  value: usedDevices,
  cell: usedDevices,
};

/** @type {Column} */
const MICRO_BATCHES = {
  key: "micro_batches",
  title: "micro-batches",
  unit: "",
  isNumber: true,
  value: (plan) => plan.micro_batches,
  cell: (plan) => plain(plan.micro_batches),
};

/** @type {Column} */
const STAGES = {
  key: "stages",
  title: "stages",
  unit: "",
  isNumber: true,
  value: (plan) => plan.stages?.count ?? 1,
  cell: (plan) => stagesText(plan),
};

/** @type {Column} */
const COMPUTED_AGAIN = {
  key: "recompute",
  title: "computed again",
  unit: "blocks",
  isNumber: true,
  value: (plan) => plan.recompute?.blocks ?? 0,
  cell: (plan) => plain(plan.recompute?.blocks ?? 0),
};

/** @type {Column} */
const ON_THE_HOST = {
  key: "offload",
  title: "on the host",
  unit: "GiB",
  isNumber: true,
  value: (plan) => plan.offload?.bytes ?? 0,
  cell: (plan) => ((plan.offload?.bytes ?? 0) / 2 ** 30).toFixed(3),
};

/** @type {Column} */
const ORIGIN = {
  key: "origin",
  title: "origin",
  unit: "",
  isNumber: false,
  value: (plan) => (sourceOf(plan) ? originText(plan) : "~"), // what the search found comes last
  cell: (plan) =>
    sourceOf(plan)
      ? [originChip(sourceOf(plan), originWord(sourceOf(plan))), element("div", { class: "seed-name" }, plan.origin?.name)]
      : element("span", { class: "seed-name" }, originText(plan)),
};

/** Rows keep their place in memory: only what changed is written. */
export class PlanTable {
  /**
   * @param {Element} place
   * @param {(id: string | null) => void} onPoint which row the pointer is on
   * @param {import("./comparing.js").PlanTray} tray has the plans that are selected
   */
  constructor(place, onPoint, tray) {
    this.place = place;
    this.tray = tray;
    this.onPoint = onPoint;
    /** @type {import("./tables.js").Order} */
    this.order = addressedOrder("sort", { key: "", isAscending: true });
    const { table, head, body } = sortedTable("Plans", { kind: "plan-table", file: () => frontierRows(this.content?.plans ?? []) });
    this.table = table;
    this.head = head;
    this.body = body;
    /** @type {Map<string, {row: HTMLTableRowElement, plan: Plan, look: string}>} */
    this.rows = new Map();
    /** @type {HTMLTableRowElement | undefined} */
    this.pointed = undefined;
    this.body.addEventListener("pointerover", (/** @type {any} */ event) =>
      onPoint(event.target.closest("tr")?.dataset.plan ?? null),
    );
    this.body.addEventListener("pointerleave", () => onPoint(null));
    fill(place, table);
    this.headKey = "";
  }

  /** Point out the row of a plan, or none. @param {string | null} id */
  point(id) {
    this.pointed?.classList.remove("is-pointed");
    this.pointed = id === null ? undefined : this.rows.get(id)?.row;
    this.pointed?.classList.add("is-pointed");
  }

  /** @param {{plans: Plan[], objectives: Objective[], marks: Map<string, string[]>, hasLeads: boolean}} content */
  show(content) {
    this.content = content;
    const columns = columnsOf(content);
    if (!columns.some((one) => one.key === this.order.key))
      this.order = { ...this.order, key: content.objectives[0]?.name ?? "plan" };
    this.#showHead(columns);
    const by = columns.find((one) => one.key === this.order.key) ?? columns[0];
    const keyed = content.plans.map((plan) => ({ plan, value: by.value(plan) }));
    keyed.sort((a, b) => inOrder(a.value, b.value, this.order) || (a.plan.id < b.plan.id ? -1 : 1));
    const bests = new Map(
      columns
        .filter((one) => one.unit)
        .map((one) => [
          one.key,
          Math.min(...content.plans.map((plan) => /** @type {number} */ (one.value(plan)))),
        ]),
    );
    const rows = keyed.map(({ plan }) => this.#row(plan, columns, bests));
    const kept = new Set(content.plans.map((plan) => plan.id));
    for (const id of this.rows.keys()) if (!kept.has(id)) this.rows.delete(id);
    const isSame =
      rows.length === this.body.children.length && rows.every((row, k) => row === this.body.children[k]);
    if (!isSame) this.#place(rows);
  }

  /** @param {HTMLTableRowElement[]} rows */
  #place(rows) {
    const focused = document.activeElement;
    const isInside = this.body.contains(focused);
    fill(this.body, ...rows);
    if (isInside && focused instanceof HTMLElement && focused.isConnected)
      focused.focus({ preventScroll: true });
  }

  /** @param {Plan} plan @param {Column[]} columns @param {Map<string, number>} bests */
  #row(plan, columns, bests) {
    const isBest = (/** @type {Column} */ one) =>
      bests.has(one.key) && one.value(plan) === bests.get(one.key);
    const marks = this.content?.marks.get(plan.id) ?? [];
    const look = JSON.stringify([columns.map((one) => [one.key, one.unit, one.form, isBest(one)]), marks]);
    const known = this.rows.get(plan.id);
    if (known?.plan === plan && known.look === look) return known.row;
    const row = known?.row ?? element("tr", { data: { plan: plan.id } });
    const cells = columns.map((one) => {
      const kind = `${one.isNumber ? "number" : ""} ${isBest(one) ? "best" : ""}`.trim();
      return element("td", { class: kind }, one.cell(plan));
    });
    const focused = row.contains(document.activeElement) ? document.activeElement : null;
    const select = row.querySelector(".select-cell") ?? element("td", { class: "select-cell" }, this.tray.box(plan.id, plan.plan));
    fill(row, select, ...cells);
    asCard(row, ["", ...columns.map(({ key, title, unit }) => (key === "plan" ? "" : unit ? `${title}, ${unit}` : title))]);
    // A link is another one now; a box stays what it was.
    if (focused) (focused.isConnected ? focused : row.querySelector("a")).focus({ preventScroll: true });
    this.rows.set(plan.id, { row, plan, look });
    return row;
  }

  /** @param {Column[]} columns */
  #showHead(columns) {
    const key = JSON.stringify([columns.map((one) => [one.title, one.unit]), this.order]);
    if (key === this.headKey) return;
    this.headKey = key;
    showSortHeads(this.head, columns, this.order, (order) => {
      this.order = order;
      keepOrder("sort", order);
      if (this.content) this.show(this.content);
    });
    this.head.prepend(element("td", { class: "select-cell" }));
    asCards(this.table, []);
  }
}

/** @param {NonNullable<PlanTable["content"]>} content @returns {Column[]} */
function columnsOf({ plans, objectives, marks, hasLeads }) {
  const costs = objectives.map(({ name, unit, title }) => {
    const scale = column(
      plans.map((plan) => plan.cost[name]),
      unit,
    );
    return {
      key: name,
      title,
      about: `cost: ${name}`,
      unit: scale.name,
      form: scale.write(0),
      isNumber: true,
      value: (/** @type {Plan} */ plan) => plan.cost[name],
      cell: (/** @type {Plan} */ plan) => scale.write(plan.cost[name]),
      ...(name === "time_s" ? intervalsOf(plans, scale) : {}),
    };
  });
  return [
    {
      key: "plan",
      title: "plan",
      unit: "",
      isNumber: false,
      value: (plan) => plan.plan,
      cell: (plan) => [
        element("a", { href: pages.plan(plan.id), class: "mono" }, plan.plan),
        ...(marks.get(plan.id) ?? []).flatMap((mark) => [" ", markChip(mark)]),
        ...(plan.feasible ? [] : [" ", element("span", { class: "chip bad" }, "✕ infeasible")]),
      ],
    },
    ...costs.flatMap((one) =>
      one.key === "time_s" ? [one, ...(hasLeads ? leadsOf(plans) : [])] : [one],
    ),
    ...(plans.some(sourceOf) ? [ORIGIN] : []),
    ...(plans.some((plan) => plan.devices !== "all") ? [DEVICES] : []),
    ...(plans.some((plan) => plan.micro_batches > 1) ? [MICRO_BATCHES] : []),
    ...(plans.some((plan) => plan.stages) ? [STAGES] : []),
    ...(plans.some((plan) => plan.recompute) ? [COMPUTED_AGAIN] : []),
    ...(plans.some((plan) => plan.offload) ? [ON_THE_HOST] : []),
    {
      key: "moves",
      title: "moves",
      unit: "",
      isNumber: true,
      value: (plan) => plan.move_count,
      cell: (plan) => plain(plan.move_count),
    },
    {
      key: "checks",
      title: "checks",
      unit: "",
      isNumber: false,
      value: (plan) => (plan.verified ? 1 : 0) + (plan.verified?.values?.executed ? 1 : 0),
      cell: (plan) => checkSigns(plan.verified),
    },
  ];
}

/**
 * What stands under the times of plans: the intervals that hold them, in the same unit; nothing where no plan has one.
 * @param {Plan[]} plans
 * @param {import("./units.js").Scale} scale of the times
 * @returns {Partial<Column>}
 */
function intervalsOf(plans, scale) {
  const probability = plans.find(({ time }) => time)?.time?.probability;
  if (!probability) return {};
  const interval = (/** @type {any} */ time) => time && element("div", { class: "interval" }, `${scale.write(time.low)} to ${scale.write(time.high)}`);
  return {
    under: { title: `${plain(100 * probability)} % interval`, about: "interval" },
    cell: (plan) => [scale.write(plan.cost.time_s), interval(plan.time)],
  };
}

/**
 * A column of how the times of plans compare with that of the fastest; none where nothing is compared.
 * @param {Plan[]} plans
 * @returns {Column[]}
 */
function leadsOf(plans) {
  if (!plans.some((plan) => plan.lead)) return [];
  return [
    {
      key: "lead",
      title: "lead",
      unit: "",
      isNumber: false,
      value: (plan) => -(plan.lead?.seconds ?? -Infinity),
      cell: (plan) => leadCell(plan.lead),
    },
  ];
}
