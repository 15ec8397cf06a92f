// The legend: what signs, hatching and ribbons mean.
(() => {
  "use strict";
  const legend = document.getElementById("legend");
  function open() {
    legend?.showModal();
    // Not by `autofocus`, which a browser also tries, and reports, while the page loads.
    document.getElementById("legend-title")?.focus();
  }
  // The button is made anew with each refresh.
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#legend-open, #legend-below")) open();
    if (event.target === legend || event.target.closest?.("#legend-close")) legend?.close();
  });
})();
