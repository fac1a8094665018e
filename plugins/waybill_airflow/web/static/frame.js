// Airflow shows these pages in a frame that may not navigate the page around it, so that a link to one of
// Airflow's own pages is followed in Airflow's document.
"use strict";
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[data-airflow]") : null;
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || window.parent === window) return;
  const outer = window.parent.document.createElement("a");
  outer.href = link.href;
  window.parent.document.body.append(outer);
  event.preventDefault();
  outer.click();
  outer.remove();
});
