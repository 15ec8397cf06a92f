// The legend: what signs, hatching and ribbons mean.
(() => {
  "use strict";
  const legend = document.getElementById("legend");
  // The button is made anew with each refresh.
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#legend-open, #legend-below")) legend?.showModal();
    if (event.target === legend || event.target.closest?.("#legend-close")) legend?.close();
  });
})();
