/**
 * One rule: what it makes of what, when, at what cost, what runs have learned of it, and where it was applied.
 * @module rules/rule-view
 */

import { get } from "../api.js";
import { seriesColor } from "../charts/legend.js";
import { LineChart } from "../charts/lines.js";
import { saveMenu } from "../charts/saving.js";
import { SvgFile } from "../charts/svg-file.js";
import { element, fill } from "../dom.js";
import { errorNotice } from "../notice.js";
import { pairs } from "../pairs.js";
import { explained, figure, numberHead, rowOf, scrolling, tableOf } from "../tables.js";
import { count, plain, quantity, several } from "../units.js";
import { commonPlaces, sketchOf } from "./sketch.js";

const HOLDS = { exact: "exactly: every bit stays", real: "for real numbers: up to rounding" };
const ROWS = [
  { name: "blocks that compute", key: "blocks", unit: "", text: (/** @type {number} */ value) => plain(value) },
  { name: "operations", key: "flops", unit: "flop", text: (/** @type {number} */ value) => `${plain(value)} flop` },
  { name: "bytes read and written", key: "bytes", unit: "B", text: (/** @type {number} */ value) => quantity(value, "B") },
];

/**
 * Show a rule; the latest one that was asked for, whichever answer comes first.
 * @param {HTMLElement} place @param {any} rule @param {any} learned
 */
export async function showRule(place, rule, learned) {
  place.dataset.rule = rule.name;
  const drawing = element("div", { class: "rule-sides", role: "group", "aria-label": "Drawing" });
  const runs = element("div", {});
  fill(
    place,
    element("header", {}, element("h2", {}, rule.name), element("p", { class: "note" }, rule.summary)),
    drawing,
    element(
      "div",
      { class: "rule-parts" },
      part("When, and why", ...conditions(rule)),
      part("What runs have learned of it", ...rates(rule.name, learned)),
      part("Runs in which it was applied", runs),
    ),
  );
  showRates(place, rule.name, learned.snapshots);
  await Promise.all([showDrawing(place, drawing, rule), showRuns(place, runs, rule.name)]);
}

/** @param {string} title @param {...any} children */
function part(title, ...children) {
  return element("section", { "aria-label": title }, element("h3", {}, title), ...children);
}

/** @param {any} rule */
function conditions({ doc, source, domain, kind, family }) {
  const [, form = "", ...why] = doc.split("\n").filter((/** @type {string} */ line) => line.trim());
  return [
    form.includes("->") && element("p", {}, element("code", {}, form.replaceAll("->", "→").trim())),
    element("p", {}, [...(form.includes("->") ? [] : [form]), ...why].join(" ")),
    pairs([
      ["Holds", HOLDS[/** @type {keyof HOLDS} */ (domain)] ?? domain],
      ["Kind", `${kind}, of the family ${family}`],
      ["Source", source, "rule: source"],
    ]),
  ];
}

/** @param {HTMLElement} place @param {HTMLElement} into @param {any} rule */
async function showDrawing(place, into, rule) {
  if (rule.kind === "placement") {
    return fill(into, element("p", { class: "empty" }, "It changes where blocks run, and nothing of the program."));
  }
  try {
    const found = await get(`/v1/rules/${encodeURIComponent(rule.name)}/drawing`);
    if (place.dataset.rule !== rule.name) return;
    const places = commonPlaces(found.before, found.after, found.blocks);
    fill(into, side("Before", found.before, "removed", places), element("div", { class: "rule-arrow", "aria-hidden": "true" }, "→"));
    const sketches = () => [...into.querySelectorAll("svg")];
    const menu = saveMenu(new SvgFile(sketches), () => `rule-${rule.name}`, () => costRows(found));
    into.append(side("After", found.after, "made", places), costs(found, menu));
    pointAlong(into);
  } catch (error) {
    fill(into, errorNotice(error));
  }
}

/** Let the arrow point down where the sides do not stand beside one another. @param {HTMLElement} sides */
function pointAlong(sides) {
  const [before, , after] = /** @type {HTMLElement[]} */ ([...sides.children]);
  let seen = 0;
  new ResizeObserver(() => {
    if (sides.clientWidth === seen) return;
    seen = sides.clientWidth;
    requestAnimationFrame(() => {
      sides.classList.remove("is-stacked");
      sides.classList.toggle("is-stacked", after.offsetTop >= before.offsetTop + before.offsetHeight);
    });
  }).observe(sides);
}

/** @param {string} title @param {import("./sketch.js").Side} drawn @param {"removed" | "made"} change
 * @param {import("./sketch.js").Places} places */
function side(title, drawn, change, places) {
  const label = `${title}: ${described(drawn)}; ${several(drawn.changed.length, "block")} ${change === "made" ? "are new" : "go away"}`;
  return element(
    "figure",
    { class: "rule-side" },
    element(
      "figcaption",
      {},
      element("strong", {}, title),
      element("span", { class: `change ${change}` }, change === "made" ? "new" : "replaced"),
    ),
    element("div", { class: "rule-sketch", tabindex: 0, role: "region", "aria-label": `${title}, a drawing that scrolls` },
      sketchOf(drawn, change, label, places)),
  );
}

/** What a side computes, as a text. @param {import("./sketch.js").Side} side */
function described({ operators, types, blocks }) {
  return blocks.operator
    .map((number, k) => `${blocks.site[k]}, ${operators[number]}, ${types[blocks.type[k]]}`)
    .join("; ");
}

/** What both sides cost, with exact numbers. @param {any} found @returns {unknown[][]} */
function costRows({ before, after }) {
  return [["on this example", "unit", "before", "after"], ...ROWS.map(({ name, key, unit }) => [name, unit, before.cost[key], after.cost[key]])];
}

/** @param {any} found @param {HTMLElement} menu */
function costs({ before, after, choice, choices }, menu) {
  const rows = ROWS.map(({ name, key, unit, text }) => {
    const [was, is] = [before.cost[key], after.cost[key]];
    const sign = is < was ? "less" : is > was ? "more" : "the same";
    const kind = is < was ? "better" : is > was ? "worse" : "";
    return rowOf(explained(name, `example: ${key}`), [figure(text(was), was, unit), figure(text(is), is, unit), element("td", { class: kind }, sign)]);
  });
  return element(
    "div",
    { class: "rule-costs" },
    scrolling(tableOf(["on this example", numberHead("before"), numberHead("after"), ""], rows, "Costs of the example")),
    choice && element("p", { class: "muted small" }, `Drawn with the choice ${choice}, one of ${choices.length}.`),
    menu,
  );
}

/** @param {string} name @param {{rules: any[]}} learned */
function rates(name, { rules }) {
  const own = rules.filter((row) => row.rule === name).sort((one, other) => other.rate - one.rate);
  if (!own.length) return [element("p", { class: "empty" }, "No rate of it is learned yet.")];
  const rows = own.map((row) =>
    rowOf(
      `${row.operator_class}, ${row.mesh_kind}`,
      [figure(count(row.applied), row.applied), figure(count(row.improved), row.improved), figure(plain(row.rate, 2), row.rate)],
    ),
  );
  const heads = ["operators, mesh", ...["applied", "improved", "credit by 1,000"].map((title) => numberHead(title))];
  return [element("div", { class: "rule-rates" }), scrolling(tableOf(heads, rows, `Rates of ${name}`))];
}

/** @param {HTMLElement} place @param {string} name @param {any[]} snapshots */
function showRates(place, name, snapshots) {
  const into = place.querySelector(".rule-rates");
  const own = snapshots.filter((row) => row.rule === name);
  if (!(into instanceof HTMLElement) || own.length < 2) return into?.remove();
  const chart = new LineChart(into, `Credit of ${name} by a thousand moves, run by run; the table has its sums`);
  into.after(saveMenu(chart, () => `rule-${name}.credit`, () => chart.rows()));
  chart.show({
    series: [
      {
        name,
        color: seriesColor(0),
        x: own.map((row) => row.snapshot),
        y: own.map((row) => (1000 * row.credit) / Math.max(row.applied, 1)),
      },
    ],
    x: { title: "snapshot", unit: "", isWhole: true },
    y: { title: "credit by 1,000 moves", unit: "" },
  });
}

/** @param {HTMLElement} place @param {HTMLElement} into @param {string} name */
async function showRuns(place, into, name) {
  try {
    const { items, total } = await get(`/v1/rules/${encodeURIComponent(name)}/runs`);
    if (place.dataset.rule !== name) return;
    if (!items.length) return fill(into, element("p", { class: "empty" }, "None yet."));
    fill(
      into,
      element(
        "ul",
        { class: "rule-runs" },
        items.map((/** @type {any} */ run) =>
          element(
            "li",
            {},
            element("a", { href: `/runs/${run.run}` }, `${run.graph} on ${run.mesh}`),
            element("span", { class: "muted" }, `applied ${count(run.applied)}, improved ${count(run.improved)}`),
          ),
        ),
      ),
      total > items.length && element("p", { class: "muted small" }, `The newest ${items.length} of ${count(total)}.`),
    );
  } catch (error) {
    fill(into, errorNotice(error));
  }
}
