"use strict";
const root = document.documentElement;
const theme = document.getElementById("theme");
let kept = "";
try { kept = localStorage.getItem("lintrain-theme") ?? ""; } catch { /* a page on a disk may have no storage */ }
function paint(name) {
  root.style.colorScheme = name || "light dark";
  try { localStorage.setItem("lintrain-theme", name); } catch { /* the choice is not kept */ }
}
theme.value = kept;
paint(theme.value);
theme.addEventListener("change", () => paint(theme.value));
theme.parentElement.hidden = false;

function unfold() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  target.scrollIntoView({ block: "nearest" });
}
addEventListener("hashchange", unfold);
unfold();

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const lines = [...button.parentElement.querySelectorAll(".comes")].map((line) => line.textContent);
    try {
      await navigator.clipboard.writeText(lines.join("\n") + "\n");
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(button.parentElement.querySelector("pre"));
      button.textContent = "press Ctrl+C";
    }
  });
}
const folded = document.getElementById("fold");
if (folded) {
  folded.hidden = false;
  folded.addEventListener("click", () => {
    const all = [...document.querySelectorAll("details.finding")];
    const close = all.every((one) => one.open);
    for (const one of all) one.open = !close;
    folded.textContent = close ? "unfold all" : "fold all";
  });
}
