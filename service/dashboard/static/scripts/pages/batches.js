/** The list of batches, newest first. */

import { get, pages } from "../api.js";
import { byId, element, fill } from "../dom.js";
import { watchHealth } from "../health.js";
import { errorNotice } from "../notice.js";
import { numberHead, tableOf } from "../tables.js";
import { age, clock, plain } from "../units.js";

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
      element("td", { class: "number" }, plain(batch.count)),
      element(
        "td",
        { class: "number" },
        element("time", { datetime: batch.created_at, title: clock(batch.created_at) }, age(batch.created_at)),
      ),
    ),
  );
  fill(byId("batches"), tableOf(["Batch", numberHead("Entries"), numberHead("Begun")], rows, { kind: "runs-table" }));
}

watchHealth();
void begin();
