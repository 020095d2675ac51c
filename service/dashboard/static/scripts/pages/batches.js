/** The list of batches, newest first. */

import { get, getAll, pages } from "../api.js";
import { statusBadge } from "../badges.js";
import { breakable, byId, element, fill } from "../dom.js";
import { watchHealth } from "../health.js";
import { leastOf, otherLeast, unitOf } from "../least-values.js";
import { errorNotice } from "../notice.js";
import { isEnded } from "../run-state.js";
import { countOf, figure, numberHead, SHARE, showTable } from "../tables.js";
import { age, clock, percent, plain } from "../units.js";

const PER_PAGE = 50;
const cursor = new URLSearchParams(location.search).get("cursor");

async function begin() {
  try {
    const after = cursor ? `&cursor=${encodeURIComponent(cursor)}` : "";
    const { items, next } = await get(`/v1/batches?limit=${PER_PAGE}${after}`);
    byId("none").hidden = items.length > 0 || cursor !== null;
    byId("list").hidden = !byId("none").hidden;
    show(items);
    byId("pager").hidden = !next && !cursor;
    byId("older").disabled = !next;
    byId("newest").disabled = !cursor;
    byId("older").onclick = () => location.assign(`/batches?cursor=${encodeURIComponent(next)}`);
    byId("newest").onclick = () => location.assign("/batches");
  } catch (error) {
    fill(byId("trouble"), errorNotice(error));
  }
  byId("loading").hidden = true;
}

/** @param {any[]} batches */
function show(batches) {
  const rows = batches.map((batch) =>
    element(
      "tr",
      {},
      element(
        "td",
        { class: "name" },
        element("a", { href: pages.batch(batch.id) }, breakable(batch.name || "without a name")),
        element("div", { class: "mono" }, batch.id),
        batch.count === 1 && element("span", { class: "chip" }, "one run"),
      ),
      countOf(batch.count),
      element("td", {}, Object.entries(batch.statuses).map(([status, count]) => [statusBadge(status, plain(/** @type {number} */ (count))), " "]).flat()),
      figure(percent(endedShare(batch)), endedShare(batch), SHARE),
      ...["time_s", "peak_memory_bytes"].map((name) => figure(leastOf(batch.best, name), batch.best[name], unitOf(name))),
      element("td", { class: "small others" }, otherLeast(batch.best)),
      element(
        "td",
        { class: "number" },
        element("time", { datetime: batch.created_at, title: clock(batch.created_at) }, age(batch.created_at)),
      ),
    ),
  );
  const heads = [
    "Batch",
    numberHead("Entries"),
    { name: "Status", about: "batch: status" },
    numberHead("Ended", "", "batch: ended"),
    numberHead("Least time", "", "batch: least time"),
    numberHead("Least memory", "", "batch: least memory"),
    { name: "Other least values", about: "batch: other least values" },
    numberHead("Begun"),
  ];
  showTable(byId("batches"), heads, rows, "Batches", { kind: "runs-table", file, hasCards: true });
}

/** @param {any} batch */
function endedShare({ count, statuses }) {
  const ended = Object.entries(statuses).reduce((sum, [status, some]) => sum + (isEnded(status) ? some : 0), 0);
  return count ? ended / count : 1;
}

/** All batches, those of other pages too. */
async function file() {
  const batches = await getAll("/v1/batches");
  const statuses = [...new Set(batches.flatMap((batch) => Object.keys(batch.statuses)))];
  const costs = [...new Set(batches.flatMap(({ best }) => Object.keys(best)))];
  const rows = batches.map((batch) => [
    ...[batch.id, batch.name, batch.count],
    ...statuses.map((status) => batch.statuses[status] ?? 0),
    ...costs.map((name) => batch.best[name]),
    batch.created_at,
  ]);
  return [["batch", "name", "entries", ...statuses, ...costs.map((name) => `least ${name}`), "begun"], ...rows];
}

watchHealth();
void begin();
