// Live parts: one stream a page. When it stays away for 5 s, the page says from when it is; figures stay as they are.
import "../vendor/htmx.esm.min.js";
import "../vendor/hx-sse.min.js";

const STALE_AFTER = 5000;
const stream = document.querySelector("[data-live]");
const state = document.getElementById("live-state");
const text = state?.querySelector("p") ?? state;
const usual = text?.textContent ?? "";
let timer = 0, lastHeard = new Date();

function say(message) {
  if (!state) return;
  if (text !== state) state.hidden = !message;
  text.textContent = message || usual;
  state.classList.toggle("attention", Boolean(message) || text !== state);
}

function lost(event) {
  if (event.detail?.status === 401 || event.detail?.status === 403) {
    clearTimeout(timer);
    say(state.dataset.ended);
    return;
  }
  if (!timer && state) timer = setTimeout(() => say(state.dataset.lost.replace("{time}", lastHeard.toLocaleTimeString())), STALE_AFTER);
}

// Too many streams are open, or the console has no room: the extension comes back only to a stream that has begun.
function refused(event) {
  const { status, headers } = event.detail.ctx.response;
  lost({ detail: { status } });
  if (status !== 429 && status !== 503) return;
  const wait = 1000 * (Number(headers.get("Retry-After")) || 10) * (1 + Math.random());
  setTimeout(() => htmx.ajax("GET", stream.getAttribute("hx-sse:connect"), { source: stream }), wait);
}

function found() {
  clearTimeout(timer);
  timer = 0;
  lastHeard = new Date();
  say("");
}

stream?.addEventListener("htmx:sse:error", lost);
stream?.addEventListener("htmx:sse:before:connection", lost);
stream?.addEventListener("htmx:sse:after:connection", found);
stream?.addEventListener("htmx:sse:after:message", () => { lastHeard = new Date(); });
stream?.addEventListener("htmx:error", lost);
stream?.addEventListener("htmx:response:error", refused);
