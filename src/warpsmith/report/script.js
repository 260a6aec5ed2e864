"use strict";
// A diff is coloured when it is opened: thousands of spans that nobody looks at would make the page slow.
function colour(pre) {
  if (pre.dataset.done) return;
  pre.dataset.done = "1";
  const lines = pre.textContent.split("\n");
  pre.textContent = "";
  for (const line of lines) {
    const span = document.createElement("span");
    const first = line.slice(0, 2);
    if (line.startsWith("+++") || line.startsWith("---") || first === "@@") span.className = "place";
    else if (line[0] === "+") span.className = "added";
    else if (line[0] === "-") span.className = "removed";
    span.textContent = line + "\n";
    pre.append(span);
  }
}
document.addEventListener("toggle", (event) => {
  const box = event.target;
  if (box.open && box.classList.contains("change")) colour(box.querySelector("pre.diff"));
}, true);
