// A page that shows what may be old looks again by itself, unless somebody is about to do something on it.
"use strict";
const again = document.querySelector("[data-again]");
if (again) {
  setTimeout(() => {
    if (document.activeElement === document.body) window.location.reload();
  }, Number(again.dataset.again));
}
