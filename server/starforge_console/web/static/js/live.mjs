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
