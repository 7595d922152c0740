// Log: follow, search among the lines that are here, jump to the first error. New lines come by the stream and are appended.
const MOST_LINES = 5000;
const log = document.getElementById("log");
const lines = document.getElementById("log-lines");
const follow = document.getElementById("log-follow");
const find = document.getElementById("log-find");
const jump = document.getElementById("log-error");
const follows = () => follow.getAttribute("aria-pressed") === "true";
const setFollow = (on) => follow.setAttribute("aria-pressed", String(on));
const toEnd = () => { if (follows()) log.scrollTop = log.scrollHeight; };
const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 8;

follow.addEventListener("click", () => { setFollow(!follows()); toEnd(); });
log.addEventListener("wheel", () => setFollow(atEnd()), { passive: true });
log.addEventListener("touchmove", () => setFollow(atEnd()), { passive: true });
log.addEventListener("keyup", () => setFollow(atEnd()));

jump.addEventListener("click", (event) => {
  event.preventDefault();
  setFollow(false);
  const first = log.querySelector(".err");
  first?.scrollIntoView({ block: "center" });
  log.focus({ preventScroll: true });
});

/** Marks what is searched for in the lines from `from` on; gives how many lines hold it. */
function mark(from) {
  const wanted = find.value.toLowerCase();
  let hits = 0;
  for (let item = from; item; item = item.nextElementSibling) {
    const code = item.querySelector("code");
    if (!code) continue;
    const text = code.textContent, at = wanted ? text.toLowerCase().indexOf(wanted) : -1;
    if (at < 0) { if (code.firstElementChild) code.textContent = text; continue; }
    const hit = document.createElement("mark");
    hit.textContent = text.slice(at, at + wanted.length);
    code.replaceChildren(text.slice(0, at), hit, text.slice(at + wanted.length));
    hits += 1;
  }
  return hits;
}

let hits = 0, seen = lines.lastElementChild;

find.addEventListener("input", () => {
  hits = mark(lines.firstElementChild);
  find.nextElementSibling.value = find.value ? hits : "";
  const first = log.querySelector("mark");
  if (first) { setFollow(false); first.scrollIntoView({ block: "center" }); }
});

new MutationObserver(() => {
  if (find.value) {
    hits += mark(seen?.isConnected ? seen.nextElementSibling : lines.firstElementChild);
    find.nextElementSibling.value = hits;
  }
  while (lines.childElementCount > MOST_LINES) lines.firstElementChild.remove();
  seen = lines.lastElementChild;
  jump.hidden = !log.querySelector(".err");
  toEnd();
}).observe(log, { childList: true, subtree: true });

if (location.hash !== "#first-error") toEnd(); else setFollow(false);
