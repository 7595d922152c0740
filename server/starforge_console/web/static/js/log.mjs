// Log: follow, search through the whole of it, jump to a line or the first error, load more where the reader scrolls.
// New lines come by the stream and are appended to the live list; what lies further away is shown in a window of its own.
const MOST_LINES = 5000, NEAR = 300;
const panel = document.getElementById("log-panel"), log = document.getElementById("log");
const live = document.getElementById("log-lines"), tail = document.getElementById("log-tail"), away = document.getElementById("log-window");
const follow = document.getElementById("log-follow"), jump = document.getElementById("log-error"), note = document.getElementById("log-note");
const form = document.getElementById("log-form"), find = document.getElementById("log-find"), rank = document.getElementById("log-rank");
const hits = document.getElementById("log-hits"), ways = document.getElementById("log-ways");
let marked = "", current = -1, isLoading = false, shows = 0; // `shows`: what is looked at changed so many times

const follows = () => follow.getAttribute("aria-pressed") === "true";
const setFollow = (on) => follow.setAttribute("aria-pressed", String(on));
const isAway = () => !away.hidden;
const list = () => (isAway() ? away : live);
const numberOf = (item) => Number(item?.dataset.n ?? item?.id.slice(1)) || 0;
const numbers = (items) => [...items].map(numberOf).filter(Boolean);
const toEnd = () => { if (follows()) log.scrollTop = log.scrollHeight; };
const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 8;

function say(text) {
  note.textContent = text;
  note.hidden = !text;
}

/** A fragment of the server's; null, and a word about it, where it could not be had. */
async function fetchPart(address) {
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(String(answer.status));
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    for (const item of holder.content.querySelectorAll("li.aim")) item.classList.remove("aim");
    say("");
    return holder.content.firstElementChild;
  } catch {
    say(note.dataset.failed);
    return null;
  }
}

function unmark(root) {
  for (const hit of root.querySelectorAll("mark")) {
    const code = hit.closest("code");
    hit.replaceWith(hit.textContent);
    code.normalize();
  }
}

/** Marks what is searched for in the lines of `items`. */
function mark(items) {
  if (!marked) return;
  for (const item of items) {
    const code = item.querySelector("code");
    if (!code || code.querySelector("mark")) continue;
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
      const at = text.data.toLowerCase().indexOf(marked);
      if (at < 0) continue;
      const range = document.createRange(), hit = document.createElement("mark");
      range.setStart(text, at);
      range.setEnd(text, Math.min(text.data.length, at + marked.length));
      range.surroundContents(hit);
      break;
    }
  }
}

function aim(item) {
  for (const other of log.querySelectorAll(".aim")) other.classList.remove("aim");
  item?.classList.add("aim");
  item?.scrollIntoView({ block: "center" });
}

function showLive() {
  shows += 1;
  away.hidden = true;
  away.replaceChildren();
  live.hidden = tail.hidden = false;
}

/** Items of a fragment for the window: ids stay with the live list. */
function take(part) {
  const items = [...part.children];
  for (const item of items) if (item.id) { item.dataset.n = item.id.slice(1); item.removeAttribute("id"); }
  mark(items);
  return items;
}

function showWindow(part, number) {
  shows += 1;
  away.replaceChildren(...take(part));
  Object.assign(away.dataset, { earlier: part.dataset.earlier, later: part.dataset.later });
  live.hidden = tail.hidden = true;
  away.hidden = false;
  if (ways) ways.hidden = true;
  aim([...away.children].find((item) => numberOf(item) >= number));
}

async function goTo(number) {
  setFollow(false);
  const here = [...list().children, ...(isAway() ? [] : tail.children)].find((item) => numberOf(item) === number);
  if (here) { aim(here); return; }
  const part = await fetchPart(`${panel.dataset.part}&line=${number}`);
  if (part) showWindow(part, number);
}

jump.addEventListener("click", async (event) => {
  event.preventDefault();
  const part = await fetchPart(`${panel.dataset.part}&at=error`);
  if (!part) return;
  const number = Number(part.dataset.target);
  if (!number) { say(note.dataset.none); return; }
  setFollow(false);
  const here = [...list().children].find((item) => numberOf(item) === number);
  if (here) aim(here); else showWindow(part, number);
  log.focus({ preventScroll: true });
});

follow.addEventListener("click", () => {
  if (follow.dataset.leads) { location.assign(follow.dataset.leads); return; }
  if (isAway()) { showLive(); setFollow(true); } else setFollow(!follows());
  toEnd();
});

// More lines where the reader scrolls: further up, and below a window.
async function loadMore(side) {
  const items = list(), number = Number(items.dataset[side]);
  if (isLoading || !number) return;
  isLoading = true;
  const seen = shows;
  const part = await fetchPart(`${panel.dataset.part}&line=${number}`);
  isLoading = false;
  if (!part || seen !== shows) return;
  const known = numbers(items.children), first = Math.min(...known), last = Math.max(...known);
  items.dataset[side] = part.dataset[side];
  const fresh = (items === away ? take(part) : [...part.children]).filter((item) => {
    const own = numberOf(item);
    return own && (side === "earlier" ? own < first : own > last);
  });
  mark(fresh);
  if (side === "later") { items.append(...fresh); return; }
  const below = log.scrollHeight - log.scrollTop;
  items.prepend(...fresh);
  log.scrollTop = log.scrollHeight - below;
}

log.addEventListener("scroll", () => {
  if (!follows() && log.scrollTop < NEAR) loadMore("earlier");
  if (!follows() && log.scrollHeight - log.scrollTop - log.clientHeight < NEAR) loadMore("later");
}, { passive: true });
const look = () => { if (!isAway() && !follow.dataset.leads) setFollow(atEnd()); };
log.addEventListener("wheel", look, { passive: true });
log.addEventListener("touchmove", look, { passive: true });

// Search: the server looks through the whole log, the list of hits leads to its lines.
const searched = () => `${panel.dataset.find}&find=${encodeURIComponent(find.value)}&rank=${encodeURIComponent(rank?.value ?? "")}`;
const found = () => [...hits.querySelectorAll("[data-line]")];

function step(by) {
  const all = found();
  if (!all.length) return;
  current = (current + by + all.length) % all.length;
  for (const [index, one] of all.entries()) one.closest("li").classList.toggle("aim", index === current);
  all[current].closest("li").scrollIntoView({ block: "nearest" });
  hits.querySelector(".steps output").value = `${current + 1} / ${all.length}`;
  goTo(Number(all[current].dataset.line));
}

async function search(more) {
  const part = await fetchPart(more ? `${searched()}&from=${more}` : searched());
  if (!part) return;
  unmark(log);
  marked = find.value.toLowerCase();
  mark([...list().children, ...tail.children]);
  const before = more ? hits.querySelectorAll("ol > li") : [];
  part.querySelector("ol")?.prepend(...before);
  hits.replaceChildren(part);
  if (!more) { current = -1; step(1); }
}

// While it is typed, what is here shows the text; Enter asks the server for the rest.
find.addEventListener("input", () => {
  unmark(log);
  marked = find.value.toLowerCase();
  mark([...list().children, ...tail.children]);
});

form.addEventListener("submit", (event) => {
  if (!panel.dataset.find) return;
  event.preventDefault();
  if (find.value || rank?.value) search(0); else clear();
});

function clear() {
  marked = "";
  find.value = "";
  if (rank) rank.value = "";
  hits.replaceChildren();
  unmark(log);
  showLive();
  setFollow(!follow.dataset.leads);
  toEnd();
}

hits.addEventListener("click", (event) => {
  const target = event.target.closest("a, button");
  if (!target || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (target.dataset.step) step(Number(target.dataset.step));
  else if ("more" in target.dataset) { event.preventDefault(); search(hits.querySelector(".hits").dataset.next); }
  else if ("clear" in target.dataset) { event.preventDefault(); clear(); }
  else if (target.dataset.line) { event.preventDefault(); current = found().indexOf(target) - 1; step(1); }
});

log.addEventListener("click", (event) => {
  const link = event.target.closest("a.ln");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.replaceState(null, "", link.href);
  setFollow(false);
  for (const other of log.querySelectorAll(".aim")) other.classList.remove("aim");
  link.closest("li").classList.add("aim");
});

const KEYS = { n: () => step(1), N: () => step(-1), e: () => jump.click(), f: () => follow.click(), "/": () => find.focus(), G: () => { setFollow(true); toEnd(); } };
log.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});
log.addEventListener("keyup", (event) => { if (!(event.key in KEYS)) look(); });

new MutationObserver((changes) => {
  if (isAway()) return;
  for (const change of changes) mark([...change.addedNodes].filter((one) => one.tagName === "LI"));
  if (!follows()) return;
  while (live.childElementCount > MOST_LINES) live.firstElementChild.remove();
  const [first] = numbers(live.children);
  live.dataset.earlier = first > 1 ? String(Math.max(1, first - 500)) : "";
  toEnd();
}).observe(log, { childList: true, subtree: true });

marked = find.value.toLowerCase();
mark(live.children);
const asked = location.hash.match(/^#L(\d+)$/);
if (asked) goTo(Number(asked[1])); else if (log.querySelector(".aim")) aim(log.querySelector(".aim")); else toEnd();
