/** The list of batches, newest first. */

import { get, getAll, pages } from "../api.js";
import { byId, element, fill } from "../dom.js";
import { watchHealth } from "../health.js";
import { errorNotice } from "../notice.js";
import { countOf, numberHead, showTable } from "../tables.js";
import { age, clock } from "../units.js";

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
        element("a", { href: pages.batch(batch.id) }, batch.name || "without a name"),
        element("div", { class: "mono" }, batch.id),
      ),
      countOf(batch.count),
      element(
        "td",
        { class: "number" },
        element("time", { datetime: batch.created_at, title: clock(batch.created_at) }, age(batch.created_at)),
      ),
    ),
  );
  showTable(byId("batches"), ["Batch", numberHead("Entries"), numberHead("Begun")], rows, "Batches", { kind: "runs-table", file });
}

/** All batches, those of other pages too. */
async function file() {
  const batches = await getAll("/v1/batches");
  const rows = batches.map(({ id, name, count, created_at: begun }) => [id, name, count, begun]);
  return [["batch", "name", "entries", "begun"], ...rows];
}

watchHealth();
void begin();
