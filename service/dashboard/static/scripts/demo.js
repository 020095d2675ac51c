/**
 * The demo: the model that came along, imported and run with one click.
 * @module demo
 */

import { exampleFile, pages, post, uploadGraph } from "./api.js";
import { fill, say } from "./dom.js";
import { errorNotice } from "./notice.js";

/**
 * @param {HTMLButtonElement} button whose `data-demo` says which model and which run
 * @param {Element} status the place for messages about progress
 */
export function enableDemo(button, status) {
  const { model, run } = JSON.parse(button.dataset.demo ?? "{}");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      say(status, "Importing GPT-2 small…");
      const graph = await uploadGraph(await exampleFile(model));
      say(status, "Starting the search…");
      const { id } = await post("/v1/runs", { ...run, graph_id: graph.id });
      location.assign(pages.run(id));
    } catch (error) {
      fill(status, errorNotice(error));
      button.disabled = false;
    }
  });
}
