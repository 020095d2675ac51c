/**
 * Times of collectives along the axes of a mesh, by bytes: as searches count them, from figures alone, and measured.
 * @module devices/collectives
 */

import { legend, seriesColor } from "../charts/legend.js";
import { LineChart } from "../charts/lines.js";
import { saveMenu } from "../charts/saving.js";
import { element, fill } from "../dom.js";
import { figure, figureOf, numberHead, rowAt, scrolling, SHARE, tableOf } from "../tables.js";
import { plain, quantity, rounded } from "../units.js";
import { errorText, median, signed } from "./curve.js";

const SHOWN = { rate: "bus bandwidth", time: "time" };
const THROUGH = 0.01; // at most so far off the points, a curve passes through them
const DRAWN = "Tables of the catalog are drawn through the rows that were measured, nine tenths of the way from a smooth curve to each, by benchmarks/collective_fit.py.";

/**
 * @param {any} mesh @param {any[]} links its axes, and the network between nodes
 * @param {URLSearchParams} state @param {() => void} keep
 */
export function collectivesSection(mesh, links, state, keep) {
  const section = element("section", { class: "card", id: "collectives", "aria-label": "Collectives" });
  const usable = links.filter((link) => link.groups.length);
  if (!usable.length) {
    fill(section, element("header", {}, element("h2", {}, "Collectives")), element("p", { class: "empty" }, "One device: nothing is exchanged."));
    return section;
  }
  const axis = choice("Axis", usable.map((link) => [link.name, link === mesh.network ? "between nodes" : `along ${link.name}`]), state.get("axis"));
  const shown = choice("Shown", Object.entries(SHOWN), state.get("show"));
  const group = element("select", { "aria-label": "Collective" });
  const linkOf = () => usable.find((link) => link.name === axis.value);
  const groupOf = () => linkOf().groups.find((/** @type {any} */ one) => keyOf(one) === group.value);
  const place = element("div", { class: "curve" });
  const [names, note, table] = [element("div", {}), element("p", { class: "muted small" }), element("div", {})];
  const chart = new LineChart(place, "");
  const fillGroups = (/** @type {string | null} */ wanted) => {
    const { groups } = linkOf();
    fill(group, groups.map((/** @type {any} */ one) => element("option", { value: keyOf(one) }, groupText(one))));
    const known = groups.map(keyOf);
    const first = groups.find((/** @type {any} */ one) => one.points.length) ?? groups[0];
    group.value = wanted && known.includes(wanted) ? wanted : keyOf(first);
  };
  const draw = () => {
    const [link, found] = [linkOf(), groupOf()];
    const content = contentOf(mesh.bytes, link, found, shown.value === "time");
    chart.describe(`${SHOWN[/** @type {keyof SHOWN} */ (shown.value)]} of ${groupText(found)} ${axis.selectedOptions[0].text}, by bytes; the table below has the same figures`);
    chart.show(content);
    fill(names, legend(content.series));
    note.textContent = noteOf(link, found);
    fill(table, ...tables(mesh.bytes, found));
  };
  const changed = () => {
    state.set("axis", axis.value);
    state.set("collective", group.value);
    state.set("show", shown.value);
    keep();
    draw();
  };
  axis.addEventListener("change", () => {
    fillGroups(group.value);
    changed();
  });
  for (const one of [group, shown]) one.addEventListener("change", changed);
  fillGroups(state.get("collective"));
  draw();
  fill(
    section,
    element("header", {}, element("h2", {}, "Collectives"), element("div", { class: "row spread" }, axis, group, shown,
      saveMenu(chart, () => `${mesh.name}-${axis.value}-${group.value}`, () => rowsOf(mesh.bytes, groupOf())))),
    names,
    place,
    note,
    table,
  );
  return section;
}

/** @param {any} group */
function keyOf({ kind, members, inside }) {
  return [kind, members, ...(inside > 1 ? [inside] : [])].join(".");
}

/** @param {any} group */
function groupText({ kind, members, inside, points }) {
  const size = inside > 1 ? `${plain(members)} × ${plain(inside)}` : plain(members);
  return `${kind.replaceAll("_", "-")} of ${size}${points.length ? ", measured" : ""}`;
}

/** @param {string} label @param {[string, string][]} options @param {string | null} value */
function choice(label, options, value) {
  const made = element("select", { "aria-label": label }, options.map(([name, title]) => element("option", { value: name }, title)));
  if (options.some(([name]) => name === value)) made.value = value;
  return made;
}

/** @param {number[]} bytes @param {any} link @param {any} group @param {boolean} isTime @returns {import("../charts/lines.js").LineContent} */
function contentOf(bytes, link, group, isTime) {
  const value = (/** @type {number} */ size, /** @type {number} */ spent) => (isTime ? spent : (size * group.received_share) / spent);
  const line = (/** @type {string} */ name, /** @type {string} */ color, /** @type {number[]} */ spent, isDashed = false) =>
    ({ name, color, kind: /** @type {"line"} */ ("line"), isDashed, x: bytes, y: bytes.map((size, k) => value(size, spent[k])) });
  const unit = isTime ? "s" : "B/s";
  const points = group.points.map((/** @type {any} */ table, /** @type {number} */ t) => ({
    name: table.algorithm === "any" ? "measured" : `measured, ${table.algorithm.replace("_", " ")}`,
    color: seriesColor(t + 1),
    kind: "points",
    x: table.bytes,
    y: table.bytes.map((/** @type {number} */ size, /** @type {number} */ k) => value(size, table.measured_s[k])),
    note: (/** @type {number} */ k) =>
      `${quantity(value(table.bytes[k], table.measured_s[k]), unit)} at ${rounded(table.bytes[k], "B")}; predicted ${signed(table.error[k])}, ${signed(table.left_out_error[k])} where it is left out, figures alone ${signed(table.computed_error[k])}`,
  }));
  const differs = group.seconds.some((/** @type {number} */ spent, /** @type {number} */ k) => spent !== group.computed[k]);
  return {
    series: [
      ...points,
      line("predicted", "series-1", group.seconds),
      ...(differs ? [line("from the figures alone", "series-8", group.computed, true)] : []),
    ],
    x: { title: "bytes of the tensor", unit: "B", isLog: true },
    y: { title: isTime ? "time" : SHOWN.rate, unit, isLog: isTime, isFromZero: !isTime },
    levels: isTime ? [] : [{ y: link.device_bytes_per_s, name: "all links of a device" }],
  };
}

/** @param {any} link @param {any} group */
function noteOf({ tables: known }, { kind, members, points }) {
  const share = "Bus bandwidth: the bytes that a device receives, as nccl-tests count them, over the time.";
  if (points.length) {
    const inSwitch = points.some((/** @type {any} */ table) => table.algorithm === "in_switch");
    const sources = points.map((/** @type {any} */ table) => table.source).join("; ");
    const off = points.map((/** @type {any} */ table) => errorText(table.table_error)).join(", ");
    const passes = points.every((/** @type {any} */ table) => largest(table.error) < THROUGH)
      ? "Predictions pass through them"
      : "Predictions do not pass through all of them: the times of other exchanges on these links bound this one";
    return `Points: ${sources}. ${DRAWN} ${passes}; between them times may be off by ${off} (one standard deviation). ${leftOutText(points)} ${share}${inSwitch ? " Where switches add up, less is sent than that counts, so it may exceed the links." : ""}`;
  }
  const others = known.length ? "the figures, and from the nearest that was measured on these links" : "the figures alone: nothing was measured on these links";
  return `No measurement of ${kind.replaceAll("_", "-")} among ${plain(members)} lies in the project: the curve follows from ${others}. ${share}`;
}

/** @param {number[]} errors */
const largest = (errors) => Math.max(...errors.map(Math.abs));

/** What the predictions of sizes are worth that are not in the tables. @param {any[]} points */
function leftOutText(points) {
  const errors = points.flatMap((table) => table.left_out_error).map(Math.abs);
  return `A size that is left out of its table is predicted ${errorText(median(errors))} off in the median, ${errorText(largest(errors))} at most.`;
}

/** The points with the error of each, and the curve, as tables. @param {number[]} bytes @param {any} group */
function tables(bytes, group) {
  const title = groupText(group);
  const time = (/** @type {number} */ spent) => figureOf(spent, "s");
  const error = (/** @type {number} */ share) => figure(signed(share), share, SHARE);
  const hasAlgorithm = group.points.some((/** @type {any} */ table) => table.algorithm !== "any");
  const measured = group.points.flatMap((/** @type {any} */ table) =>
    table.bytes.map((/** @type {number} */ size, /** @type {number} */ k) =>
      rowAt(rounded(size, "B"), size, "B", [
        hasAlgorithm && element("td", {}, table.algorithm === "any" ? "the library's choice" : table.algorithm.replace("_", " ")),
        time(table.measured_s[k]), time(table.predicted_s[k]), error(table.error[k]), error(table.left_out_error[k]), time(table.computed_s[k]), error(table.computed_error[k]),
      ])));
  const heads = ["bytes", ...(hasAlgorithm ? ["algorithm"] : []), ...["measured", "predicted", "error", "left out", "figures alone", "error"].map((name) => numberHead(name, "", `exchange: ${name}`))];
  const curve = bytes.map((size, k) => rowAt(rounded(size, "B"), size, "B", [
    time(group.seconds[k]), time(group.computed[k]), figureOf((size * group.received_share) / group.seconds[k], "B/s")]));
  return [
    measured.length ? scrolling(tableOf(heads, measured, `Measured sizes of ${title}`, { kind: "measured-sizes" }), "tall") : null,
    element("details", { class: "more" }, element("summary", {}, "The curve, as a table"),
      scrolling(tableOf(["bytes", numberHead("predicted", "", "exchange: predicted"), numberHead("figures alone", "", "exchange: figures alone"), numberHead("bus bandwidth")], curve, `Curve of ${title}`), "tall")),
  ];
}

/** @param {number[]} bytes @param {any} group */
function rowsOf(bytes, group) {
  return [
    ["bytes (B)", "predicted (s)", "from figures alone (s)", "measured (s)", "error", "error of figures alone", "error where left out", "source"],
    ...bytes.map((size, k) => [size, group.seconds[k], group.computed[k], "", "", "", "", ""]),
    ...group.points.flatMap((/** @type {any} */ table) =>
      table.bytes.map((/** @type {number} */ size, /** @type {number} */ k) =>
        [size, table.predicted_s[k], table.computed_s[k], table.measured_s[k], table.error[k], table.computed_error[k], table.left_out_error[k], table.source])),
  ];
}
