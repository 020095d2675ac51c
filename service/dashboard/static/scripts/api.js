/**
 * The API as the pages use it: JSON in and out; whatever goes wrong is a `Problem`.
 * @module api
 */

const IMPORT_LOOK_MS = 500;

/** @typedef {{pointer: string, detail: string, allowed?: string[]}} Fault */

/** A failure, as a problem document (RFC 9457) describes it. */
export class Problem extends Error {
  /** @param {Record<string, any>} document @param {number} status */
  constructor(document, status) {
    super(document.detail ?? document.title ?? "unknown");
    this.title = document.title ?? "This did not work";
    this.code = document.code ?? "";
    this.status = status;
    /** @type {Fault[]} */
    this.errors = document.errors ?? [];
  }
}

/** What went wrong; what is no answer of the service is a fault of the page. @param {unknown} error @returns {Problem} */
export function problemOf(error) {
  if (error instanceof Problem) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new Problem({ title: "This page met an error of its own", detail: `${detail}. Reload the page.`, code: "script" }, 0);
}

/** @param {string} detail */
function unreachable(detail) {
  return new Problem({ title: "The service does not answer", detail, code: "unreachable" }, 0);
}

/**
 * What comes over the network; a `Problem` where the service cannot be reached.
 * @template T @param {Promise<T>} coming @returns {Promise<T>}
 */
async function reached(coming) {
  try {
    return await coming;
  } catch (error) {
    throw error instanceof TypeError ? unreachable(error.message) : error; // how `fetch` reports that a connection failed
  }
}

/**
 * The JSON at a path.
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, signal) {
  const response = await reached(fetch(path, { headers: { Accept: "application/json" }, signal }));
  return answerOf(response.status, await reached(response.text()));
}

const MOST_PER_PAGE = 200;

/**
 * All items of a list that the service answers page by page.
 * @param {string} path
 * @param {Record<string, string>} [query]
 * @returns {Promise<any[]>}
 */
export async function getAll(path, query = {}) {
  const all = [];
  const wanted = new URLSearchParams({ ...query, limit: String(MOST_PER_PAGE) });
  for (;;) {
    const { items, next } = await get(`${path}?${wanted}`);
    all.push(...items);
    if (!next) return all;
    wanted.set("cursor", next);
  }
}

/**
 * What is at a path, as a file.
 * @param {string} path
 * @returns {Promise<Blob>}
 */
async function getFile(path) {
  const response = await reached(fetch(path));
  return response.ok ? reached(response.blob()) : answerOf(response.status, await reached(response.text()));
}

/**
 * What is at a path, or is answered to a form, as a file with the name that the service gives it.
 * @param {string} path
 * @param {FormData} [body]
 * @param {(bytes: number) => void} [onProgress]
 * @returns {Promise<File>}
 */
export async function fetchFile(path, body, onProgress = () => undefined) {
  const response = await reached(fetch(path, body ? { method: "POST", body } : {}));
  if (!response.ok || !response.body) return answerOf(response.status, await reached(response.text()));
  const portions = [];
  let received = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reached(reader.read());
    if (done) break;
    portions.push(value);
    received += value.byteLength;
    onProgress(received);
  }
  const [, name = "export"] = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "") ?? [];
  return new File(portions, name, { type: response.headers.get("Content-Type") ?? "" });
}

/**
 * What the service answers to a JSON body.
 * @param {string} path
 * @param {any} body
 * @param {string} [key] idempotency key
 * @returns {Promise<any>}
 */
export async function post(path, body, key) {
  /** @type {Record<string, string>} */
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (key) headers["Idempotency-Key"] = key;
  const response = await reached(fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
  return answerOf(response.status, await reached(response.text()));
}

/**
 * What the service answers to a change of what is at a path.
 * @param {string} path
 * @param {any} body
 * @returns {Promise<any>}
 */
export async function patch(path, body) {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  const response = await reached(fetch(path, { method: "PATCH", headers, body: JSON.stringify(body) }));
  return answerOf(response.status, await reached(response.text()));
}

/**
 * Delete what is at a path.
 * @param {string} path
 */
export async function remove(path) {
  const response = await reached(fetch(path, { method: "DELETE", headers: { Accept: "application/json" } }));
  return answerOf(response.status, await reached(response.text()));
}

/**
 * What the service answers to a JSON body, as a file.
 * @param {string} path
 * @param {any} body
 * @returns {Promise<Blob>}
 */
export async function postForFile(path, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await reached(fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
  return response.ok ? reached(response.blob()) : answerOf(response.status, await reached(response.text()));
}

/**
 * Send a file's content and hear how far it is.
 * @param {string} path
 * @param {FormData | Blob} body
 * @param {Record<string, string>} headers
 * @param {(share: number) => void} onProgress
 * @returns {Promise<any>}
 */
function upload(path, body, headers, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    });
    request.addEventListener("error", () => reject(unreachable("the connection broke off")));
    request.addEventListener("load", () => {
      try {
        resolve(answerOf(request.status, request.responseText));
      } catch (error) {
        reject(error);
      }
    });
    request.send(body);
  });
}

/**
 * A program, from a file: a TEG document or an ONNX model, by its ending.
 * @param {File} file
 * @param {string} dims sizes of symbolic dimensions such as `batch=8`
 * @param {(share: number) => void} onProgress
 * @param {(found: any) => void} onImport hears of the import of a large program, which a worker reads
 * @returns {Promise<any>}
 */
export async function uploadGraph(
  file,
  dims = "",
  onProgress = () => undefined,
  onImport = () => undefined,
) {
  if (file.name.toLowerCase().endsWith(".json")) {
    const headers = { "Content-Type": "application/json" };
    return importedGraph(await upload("/v1/graphs", file, headers, onProgress), onImport);
  }
  const form = new FormData();
  form.append("file", file, file.name);
  if (dims) form.append("dims", dims);
  return importedGraph(await upload("/v1/graphs/import", form, {}, onProgress), onImport);
}

/**
 * The program of an upload: the answer itself, or what its import leads to.
 * @param {any} answer
 * @param {(found: any) => void} onImport
 */
async function importedGraph(answer, onImport) {
  let found = answer;
  if (!found.links.self.startsWith("/v1/imports/")) return found;
  while (found.status === "queued" || found.status === "running") {
    onImport(found);
    await new Promise((resolve) => setTimeout(resolve, IMPORT_LOOK_MS));
    found = await get(found.links.self);
  }
  if (found.status === "failed") throw new Problem(found.problem, found.problem.status ?? 422);
  if (found.status === "cancelled") throw new Problem({ title: "The import was cancelled", detail: "choose the file again" }, 0);
  return get(found.links.graph);
}

/**
 * A model that came along with the service, as a file.
 * @param {string} path
 */
export async function exampleFile(path) {
  return new File([await getFile(path)], decodeURIComponent(path.split("/").pop() ?? "model.onnx"));
}

/** @param {number} status @param {string} text */
function answerOf(status, text) {
  if (status === 401) {
    location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`);
  }
  const document = parsed(text);
  if (status >= 200 && status < 300) return document;
  throw new Problem(
    document ?? { title: `The service answered ${status}`, detail: text.slice(0, 300) },
    status,
  );
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Where things have their pages. */
export const pages = {
  run: (/** @type {string} */ id) => `/runs/${encodeURIComponent(id)}`,
  plan: (/** @type {string} */ id) => `/plans/${encodeURIComponent(id)}`,
  graph: (/** @type {string} */ id) => `/graphs/${encodeURIComponent(id)}`,
  batch: (/** @type {string} */ id) => `/batches/${encodeURIComponent(id)}`,
  device: (/** @type {string} */ name) => `/devices?device=${encodeURIComponent(name)}`,
  mesh: (/** @type {string} */ name) => `/devices?mesh=${encodeURIComponent(name)}`,
  meshOf: (/** @type {string} */ run) => `/devices?run=${encodeURIComponent(run)}`,
  compare: (/** @type {"runs" | "plans"} */ what, /** @type {string[]} */ ids) => `/compare?${what}=${ids.map(encodeURIComponent).join(",")}`,
};
