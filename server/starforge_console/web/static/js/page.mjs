// Times in the reader's zone, copy buttons, row selection, filters that send themselves. Every page works without this file.
import { describeDuration } from "./durations.mjs";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const two = (n) => String(n).padStart(2, "0");
const units = document.documentElement.dataset.units.split(" ");

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The server writes UTC; the reader sees the own zone, and UTC on hover. */
function writeTime(element) {
  const at = new Date(element.dateTime);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const style = element.dataset.style;
  if (style === "ago") write(element, describeDuration((Date.now() - at) / 1000, units, 1));
  else write(element, style === "day" ? day : style === "clock" ? clock.format(at) : `${day} ${clock.format(at)}`);
}

function writeTimes() {
  for (const element of document.querySelectorAll("time[datetime]")) writeTime(element);
  for (const element of document.querySelectorAll("[data-since]"))
    write(element, describeDuration(Date.now() / 1000 - Number(element.dataset.since), units));
}

writeTimes();
setInterval(writeTimes, 1000);
document.addEventListener("htmx:after:swap", writeTimes);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));

/** Browsers give a page over plain HTTP no clipboard of its own: there it copies as a reader would, by hand. */
async function copyText(element) {
  const text = element.textContent;
  if (navigator.clipboard) { await navigator.clipboard.writeText(text); return; }
  getSelection().selectAllChildren(element);
  const fill = (event) => { event.clipboardData.setData("text/plain", text); event.preventDefault(); };
  document.addEventListener("copy", fill, { once: true });
  document.execCommand("copy");
  document.removeEventListener("copy", fill);
}

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    await copyText(document.getElementById(copy.dataset.copy));
    const use = copy.querySelector("use"), href = use.getAttribute("href");
    use.setAttribute("href", href.replace("#copy", "#check"));
    setTimeout(() => use.setAttribute("href", href.replace("#check", "#copy")), 1500);
  }

  const press = event.target.closest("[data-toggles]");
  if (press) {
    const on = press.getAttribute("aria-pressed") !== "true";
    press.setAttribute("aria-pressed", String(on));
    document.getElementById(press.getAttribute("aria-controls"))?.classList.toggle(press.dataset.toggles, on);
  }
});

document.addEventListener("change", (event) => {
  if (event.target.matches("select[data-sends]")) event.target.form.requestSubmit();
});

// Selecting rows: the head of the table becomes the bulk bar.
const rows = document.querySelector("[data-rows]");
if (rows) {
  const all = rows.querySelector("[data-all]"), count = rows.querySelector("[data-count]");
  const update = () => {
    const boxes = [...rows.querySelectorAll('[name="job"]')];
    for (const box of boxes) box.closest("tr").setAttribute("aria-selected", String(box.checked));
    const n = boxes.filter((box) => box.checked).length;
    all.checked = n > 0 && n === boxes.length;
    all.indeterminate = n > 0 && n < boxes.length;
    all.disabled = boxes.length === 0;
    count.textContent = count.dataset.count.replace("{n}", n);
    for (const button of rows.querySelectorAll('[name="do"]')) button.disabled = n === 0;
  };
  rows.addEventListener("change", (event) => {
    if (event.target === all) for (const box of rows.querySelectorAll('[name="job"]')) box.checked = all.checked;
    update();
  });
  document.addEventListener("htmx:after:swap", update);
  update();
}
