// The hit that the reader is at: the keyboard moves it, and the address keeps it.

/** The selected hit among those of all answers; `changed` is called when the reader selects another one. */
export class SelectedHit {
  constructor(answers, changed) {
    this.answers = answers;
    this.key = "";
    answers.addEventListener("focusin", ({ target }) => {
      const hit = target.closest(".hit");
      if (!hit || keyOfHit(hit) === this.key) return;
      this.key = keyOfHit(hit);
      this.show();
      changed();
    });
  }

  /** Mark the selected hit in answers that are new. */
  show() {
    for (const hit of this.answers.querySelectorAll(".hit")) {
      const isCurrent = keyOfHit(hit) === this.key;
      hit.classList.toggle("is-current", isCurrent);
      if (isCurrent) hit.setAttribute("aria-current", "true");
      else hit.removeAttribute("aria-current");
    }
  }

  /** Move to the selected hit, and return it; null if the answers lack it. */
  reveal() {
    this.show();
    const hit = this.answers.querySelector(".hit.is-current");
    hit?.querySelector("article").focus();
    return hit;
  }
}

/** Return a name for a hit that stays the same when the question is asked again. */
function keyOfHit(hit) {
  const setting = hit.closest("[data-setting]")?.dataset.setting ?? "A";
  return setting === "A" ? hit.dataset.node : `${setting}.${hit.dataset.node}`;
}
