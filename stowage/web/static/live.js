// Makes open pages live: the server says which objects have changed, and a page that shows one of
// them asks for itself again and takes over what is different. Without this script pages are whole.
"use strict";

const LATE = 3000; // ms without a connection, until the page says so
const FRESH = 1000; // ms for which the server gives a table again though objects have changed
const CALM = 5000; // ms between two changes of what a screen reader reads out
const PATIENT = 30000; // ms for an answer
const AGED = 15000; // ms after which ages and leases are read again
const main = document.getElementById("main");
const status = document.getElementById("live");
const pause = document.getElementById("pause");
const names = (main.dataset.live || "").split(" ").filter(Boolean);
const html = window.trustedTypes
  ? window.trustedTypes.createPolicy("stowage", { createHTML: (text) => text })
  : { createHTML: (text) => text };

let paused = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
let due = null; // the timer of the next refresh
let heard = 0; // when a change was last told of
let busy = false;
let late = null;
const spoken = new WeakMap(); // when an element was last read out

// The one-time key has been used: a copied address shall not carry it.
const here = new URL(window.location.href);
if (here.searchParams.has("key")) {
  here.searchParams.delete("key");
  window.history.replaceState(null, "", here);
}

function concerns(kinds) {
  return names.some((name) => {
    if (name === "*") return true;
    const [kind, ...key] = name.split("/");
    const changed = kinds[kind];
    return changed === "many" || (changed && (!key.length || changed.includes(key.join("/"))));
  });
}

function soon() {
  heard = Date.now();
  // a page that shows everything is long, and hears of every change
  const least = names.includes("*") ? 2000 : FRESH;
  if (!paused && due === null) due = window.setTimeout(refresh, least + Math.random() * 1000);
}

// No other change need come that would have the page asked for again.
function again() {
  if (!paused && due === null) due = window.setTimeout(refresh, LATE);
}

async function refresh() {
  due = null;
  if (busy) return soon();
  busy = true;
  const fresh = Date.now() - heard >= FRESH; // else the answer may be from before the change
  try {
    const answer = await fetch(window.location.href, {
      headers: { Accept: "text/html" },
      signal: AbortSignal.timeout(PATIENT),
    });
    if (answer.status === 401) return say("Not connected: open the address of stowage ui", true);
    if (!answer.ok && answer.status !== 404) return again();
    const text = html.createHTML(await answer.text());
    const page = new DOMParser().parseFromString(text, "text/html");
    take(main, page.getElementById("main"));
    take(document.getElementById("foot"), page.getElementById("foot"));
    document.title = page.title;
  } catch {
    again(); // the stream's own error tells it
  } finally {
    busy = false;
    if (!fresh) soon();
  }
}

// Take over what is different, and leave every other node: focus, scroll and selection stay.
function take(old, now) {
  if (!old || !now) return;
  if (old.hasAttribute("aria-live")) {
    if (Date.now() - (spoken.get(old) || 0) < CALM) return again();
    spoken.set(old, Date.now());
  }
  for (const { name } of [...old.attributes]) {
    if (!now.hasAttribute(name) && !(name === "open" && old.tagName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (old.getAttribute(name) !== value && name !== "value") old.setAttribute(name, value);
  }
  const kept = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let at = old.firstChild;
  for (const next of [...now.childNodes]) {
    const known = next.id ? kept.get(next.id) : null;
    const same = known || (at && !at.id && !next.id && alike(at, next) ? at : null);
    if (!same) {
      old.insertBefore(document.importNode(next, true), at);
      continue;
    }
    if (same !== at) old.insertBefore(same, at);
    else at = at.nextSibling;
    if (same.nodeType === Node.TEXT_NODE) {
      if (same.data !== next.data) same.data = next.data;
    } else if (!same.isEqualNode(next)) {
      take(same, next);
      if (same.tagName === "TR") mark(same);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName;
}

function mark(row) {
  row.classList.add("changed");
  window.setTimeout(() => row.classList.remove("changed"), 1300);
}

function say(text, off) {
  status.hidden = false;
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("off", off);
}

function show() {
  pause.hidden = false;
  pause.textContent = paused ? "Go on" : "Pause";
  pause.setAttribute("aria-pressed", String(paused));
  if (late === null) say(paused ? "Paused" : "Live", false);
}

function listen() {
  const stream = new EventSource("/api/v1/live");
  stream.addEventListener("open", () => {
    window.clearTimeout(late);
    const away = late !== null;
    late = null;
    show();
    if (away) soon();
  });
  stream.addEventListener("changed", (event) => {
    if (concerns(JSON.parse(event.data).kinds)) soon();
  });
  stream.addEventListener("reset", soon);
  stream.addEventListener("error", () => {
    if (late === null) late = window.setTimeout(() => say("Not connected", true), LATE);
    // after an answer that is no stream the browser gives up: begin anew
    if (stream.readyState === EventSource.CLOSED) window.setTimeout(listen, 2000);
  });
  window.addEventListener("pagehide", () => stream.close(), { once: true });
}

// --- what if: the input is kept behind the # of the address ---

function packed(form) {
  const fields = [...new FormData(form)].filter(([, value]) => value);
  const bytes = new TextEncoder().encode(JSON.stringify(fields));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function unpacked(text) {
  const bytes = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0))));
}

// A list may have lost the choice since the address was made.
function fill(field, value) {
  if (!(field instanceof HTMLSelectElement)) {
    field.value = value;
    return;
  }
  let option = [...field.options].find((each) => each.value === value);
  if (!option) field.add((option = new Option(value)));
  option.selected = true;
}

function whatIf(form) {
  if (document.getElementById("result")) {
    window.history.replaceState(null, "", `/whatif#${packed(form)}`);
  } else if (window.location.hash.length > 1 && !form.querySelector("[role=alert]")) {
    try {
      for (const [name, value] of unpacked(window.location.hash.slice(1))) fill(form.elements[name], value);
      form.submit();
    } catch {
      window.history.replaceState(null, "", "/whatif"); // not of our making
    }
  }
}

const form = document.getElementById("whatif");
if (form) whatIf(form);
if (names.length) {
  pause.addEventListener("click", () => {
    paused = !paused;
    show();
    if (!paused) refresh();
  });
  window.setInterval(() => {
    if (names.includes("*") || names.some((name) => name.includes("/"))) soon();
  }, AGED);
  show();
  listen();
}
