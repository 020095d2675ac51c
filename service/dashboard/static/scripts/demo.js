/**
 * The demo: the model that came along, imported and run with one click.
 * @module demo
 */

import { exampleFile, pages, post, problemOf, uploadGraph } from "./api.js";
import { fill, say } from "./dom.js";
import { problemNotice } from "./notice.js";

/**
 * @param {HTMLButtonElement} button whose `data-demo` says which model and which run
 * @param {Element} said where what happens is said
 */
export function offerDemo(button, said) {
  const { model, run } = JSON.parse(button.dataset.demo ?? "{}");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      say(said, "Importing GPT-2 small…");
      const graph = await uploadGraph(await exampleFile(model));
      say(said, "Starting the search…");
      const { id } = await post("/v1/runs", { ...run, graph_id: graph.id });
      location.assign(pages.run(id));
    } catch (error) {
      fill(said, problemNotice(problemOf(error)));
      button.disabled = false;
    }
  });
}
