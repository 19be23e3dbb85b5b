(() => {
  "use strict";
  const form = document.querySelector(".filters");
  const cards = [...document.querySelectorAll("article.card")];
  if (form) {
    form.hidden = false;
    const narrow = () => {
      const wanted = Object.fromEntries(["outcome", "source", "task"].map((name) => [name, form.elements[name].value]));
      let shown = 0;
      for (const card of cards) {
        card.hidden = Object.entries(wanted).some(([name, value]) => value && card.dataset[name] !== value);
        shown += !card.hidden;
      }
      form.querySelector("output").textContent = `${shown} of ${cards.length} shown`;
    };
    form.addEventListener("change", narrow);
    form.elements.unfold.addEventListener("click", (event) => {
      const open = event.target.textContent === "Unfold all";
      for (const card of cards) card.querySelector("details").open = open;
      event.target.textContent = open ? "Fold all" : "Unfold all";
    });
    narrow();
  }
  for (const film of document.querySelectorAll(".film")) {
    film.querySelector("button")?.addEventListener("click", () => film.classList.toggle("other"));
  }
  const dialog = document.querySelector("dialog");
  const zoom = dialog.querySelector(".zoom");
  document.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
    const button = event.target.closest(".frame > button");
    if (!button) return;
    const view = document.createElement("div");
    view.className = "view";
    view.append(...[...button.children].map((child) => child.cloneNode(true)));
    const side = document.createElement("div");
    const frame = button.parentElement;
    side.append(...[...frame.querySelectorAll(".when, .track")].map((child) => child.cloneNode(true)));
    const turn = button.closest(".card").querySelector(`.turn[data-decision="${CSS.escape(button.dataset.decision)}"]`);
    if (turn) side.append(turn.cloneNode(true));
    zoom.replaceChildren(view, side);
    dialog.showModal();
  });
})();
