"""A watcher that sees of a disturbed service what people see: every event, frontier and answer, and what is wrong."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import Any

import httpx

from tapestry.client import Client, ServiceError
from tapestry.client.records import EventRecord
from tapestry.client.retrying import Retries

OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")
ENDED = ("succeeded", "failed", "cancelled")
POLL_S = 0.2
PATIENT = Retries(attempts=1000, first_s=0.1, most_s=1.0, longest_wait_s=1.0)


class Watcher:
    """Threads that look at all acknowledged runs until `stop()`; `faults` are what should not have been seen."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.faults: list[str] = []
        self.answers: Counter[int] = Counter()
        self.plans: dict[str, dict[str, list[float]]] = {}
        self.events: dict[str, list[EventRecord]] = {}
        self.ended: dict[str, str] = {}
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._look, daemon=True)]
        self._threads[0].start()

    def watch(self, run_id: str) -> None:
        """Look at a run from now on."""
        with self._lock:
            self.events[run_id], self.plans[run_id] = [], {}
        follower = threading.Thread(target=self._follow, args=(run_id,), daemon=True)
        self._threads.append(follower)
        follower.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)

    def get(self, http: httpx.Client, path: str) -> Any:
        """Return the JSON at a path; None where the service does not answer, or cannot for the moment."""
        try:
            response = http.get(path)
        except httpx.TransportError:
            return None
        self.answers[response.status_code] += 1
        if response.status_code == 200:
            return response.json()
        if response.status_code != 503:
            self.faults.append(f"GET {path}: {response.status_code} {response.text[:300]}")
        return None

    def _look(self) -> None:
        with httpx.Client(base_url=self.address, timeout=20, trust_env=False) as http:
            while not self._stopping.wait(POLL_S):
                with self._lock:
                    known = list(self.events)
                listed = self.get(http, "/v1/runs?limit=200")
                if listed is not None:
                    there = {run["id"]: run["status"] for run in listed["items"]}
                    self.faults += [f"run {run} is in no list any more" for run in known if run not in there]
                    self._note_ends(there)
                for run in known:
                    if run not in self.ended or not self.plans[run]:
                        self._note_frontier(run, self.get(http, f"/v1/runs/{run}/frontier"))

    def _note_ends(self, statuses: dict[str, str]) -> None:
        for run, status in statuses.items():
            before = self.ended.get(run)
            if before is not None and status != before:
                self.faults.append(f"run {run} had ended ({before}), and is {status}")
            if status in ENDED:
                self.ended[run] = status

    def _note_frontier(self, run: str, frontier: Any) -> None:
        for plan in () if frontier is None else frontier["plans"]:
            self.plans[run][plan["id"]] = [plan["cost"][name] for name in OBJECTIVES]

    def _follow(self, run: str) -> None:
        """Read the events of a run to the last one, as the client of the service does."""
        seen = self.events[run]
        while not self._stopping.is_set():
            with (
                Client(self.address, retries=PATIENT, timeout_s=20) as client,
                contextlib.suppress(ServiceError),
            ):
                for event in client.events(run, after=len(seen)):
                    if event.number != len(seen) + 1:
                        self.faults.append(f"run {run}: event {event.number} came after event {len(seen)}")
                    seen.append(event)
                return
            self._stopping.wait(0.5)


def order_faults(run: str, events: list[EventRecord]) -> list[str]:
    """Return what is wrong with the order of a run's events: they are written by one attempt after the other.

    Nothing follows the end. Plans are evaluated and time is spent, neither is ever taken back.
    """
    early = [event.number for event in events[:-1] if event.ends_run]
    found = [f"run {run}: event {number} ends it, and others follow" for number in early]
    attempt = 0
    last = {"evaluations": 0, "seconds": 0.0}
    if not events or not events[-1].ends_run:
        found.append(f"run {run}: its last event does not end it")
    for event in events:
        if event.kind == "status":
            if event.data["attempt"] < attempt:
                found.append(f"run {run}: event {event.number} is of an earlier attempt")
            attempt = max(attempt, event.data["attempt"])
        elif event.kind == "progress":
            less = [name for name, value in last.items() if event.data[name] < value]
            found += [f"run {run}: event {event.number} has fewer {name} than one before" for name in less]
            last = {name: event.data[name] for name in last}
    return found
