/**
 * A run's events as they come: read from the stream, taken up after the last one seen when the connection breaks.
 * @module events
 */

import { Problem } from "./api.js";
import { leaving, pageIsSeen, takePlace } from "./places.js";

/** @typedef {{number: number, kind: string, data: any}} RunEvent */
/** @typedef {"connecting" | "open" | "lost" | "over"} Connection */

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15000;
const HIDDEN_MS = 2000; // a page that nobody sees holds no connection
const TURN_MS = 700; // a page without a place reads for so long,
const BETWEEN_TURNS_MS = 3000; // and so often
const SILENCE_MS = 40000; // the service says at least every 15 s that it is there

/**
 * Follow a stream until the run has ended.
 * @param {string} path
 * @param {{
 *   onEvents: (events: RunEvent[]) => void,
 *   onConnection: (state: Connection, pause?: number) => void,
 *   isOver: () => boolean,
 * }} listener
 * @returns {() => void} ends it
 */
export function follow(path, listener) {
  const ending = new AbortController();
  void read(path, listener, ending.signal);
  return () => ending.abort();
}

/** @param {string} path @param {Parameters<typeof follow>[1]} listener @param {AbortSignal} signal */
async function read(path, listener, signal) {
  let last = 0;
  let pause = FIRST_PAUSE_MS;
  listener.onConnection("connecting");
  while (!signal.aborted && !listener.isOver()) {
    await pageIsSeen(signal);
    const giveBack = await takePlace();
    const leave = leaving({ hasPlace: giveBack !== null, turnMs: TURN_MS, hiddenMs: HIDDEN_MS });
    try {
      const either = AbortSignal.any([signal, leave.signal]);
      const onOpen = () => {
        leave.opened();
        listener.onConnection("open");
      };
      for await (const events of streamed(path, last, either, onOpen)) {
        last = events[events.length - 1].number;
        pause = FIRST_PAUSE_MS;
        listener.onEvents(events);
      }
    } catch (error) {
      if (error instanceof Problem && error.status >= 400 && error.status < 500) break; // it will not get better
    } finally {
      leave.end();
      giveBack?.();
    }
    if (signal.aborted || listener.isOver()) break;
    if (leave.signal.aborted) {
      if (!giveBack) await waited(BETWEEN_TURNS_MS, signal);
      continue;
    }
    listener.onConnection("lost", pause);
    await waited(pause, signal);
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
  }
  if (!signal.aborted) listener.onConnection("over");
}

/**
 * Portions of events after the last one seen, until the stream ends or breaks.
 * @param {string} path @param {number} last @param {AbortSignal} signal @param {() => void} onOpen
 */
async function* streamed(path, last, signal, onOpen) {
  const silence = new AbortController();
  const headers = { Accept: "text/event-stream", "Last-Event-ID": String(last) };
  const response = await fetch(path, { headers, signal: AbortSignal.any([signal, silence.signal]) });
  if (!response.ok || !response.body) throw new Problem({ detail: "no stream" }, response.status);
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const timer = setTimeout(() => silence.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    text += value;
    const end = text.lastIndexOf("\n\n");
    if (end < 0) continue;
    const events = text
      .slice(0, end)
      .split("\n\n")
      .map(parse)
      .filter((event) => event !== null);
    text = text.slice(end + 2);
    if (events.length) yield events;
  }
}

/**
 * One block of a stream; none for comments and settings.
 * @param {string} block
 * @returns {RunEvent | null}
 */
function parse(block) {
  /** @type {Record<string, string>} */
  const fields = { id: "", event: "", data: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon);
    if (colon > 0 && name in fields) fields[name] += line.slice(colon + 1).trimStart();
  }
  return fields.data
    ? { number: Number(fields.id), kind: fields.event, data: JSON.parse(fields.data) }
    : null;
}

/** @param {number} pause @param {AbortSignal} signal */
function waited(pause, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve(undefined);
    };
    const timer = setTimeout(end, pause);
    signal.addEventListener("abort", end);
  });
}
