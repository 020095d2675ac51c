/**
 * Places for streams. Over HTTP/1.1 a browser opens six connections to a host, for all pages together: were all six
 * streams of events, no other page of the service would load.
 * @module places
 */

const PLACES = 3;

/**
 * Take one of the places that a browser's pages share.
 * @returns {Promise<(() => void) | null>} gives it back; null where all are taken. Browsers without locks have places for all
 */
export async function takePlace() {
  if (!navigator.locks) return () => {};
  for (let number = 0; number < PLACES; number += 1) {
    const giveBack = await heldLock(`tapestry-stream-${number}`);
    if (giveBack) return giveBack;
  }
  return null;
}

/** @param {string} name @returns {Promise<(() => void) | null>} */
function heldLock(name) {
  return new Promise((resolve) => {
    void navigator.locks.request(name, { ifAvailable: true }, (lock) => {
      if (lock) return new Promise((giveBack) => resolve(() => giveBack(undefined)));
      return resolve(null);
    });
  });
}

/** Wait until the page is seen. @param {AbortSignal} signal @returns {Promise<void>} */
export function pageIsSeen(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

/**
 * A signal that says when to leave a stream: once the page was not seen for a while, and where it has no place, a turn
 * after the stream was opened.
 * @param {{hasPlace: boolean, turnMs: number, hiddenMs: number}} options
 * @returns {{signal: AbortSignal, opened: () => void, end: () => void}}
 */
export function leaving({ hasPlace, turnMs, hiddenMs }) {
  const controller = new AbortController();
  let timer = 0;
  let turn = 0;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = window.setTimeout(() => controller.abort(), hiddenMs);
  };
  const opened = () => {
    if (!hasPlace) turn = window.setTimeout(() => controller.abort(), turnMs);
  };
  document.addEventListener("visibilitychange", look);
  look();
  const end = () => {
    clearTimeout(timer);
    clearTimeout(turn);
    document.removeEventListener("visibilitychange", look);
  };
  return { signal: controller.signal, opened, end };
}
