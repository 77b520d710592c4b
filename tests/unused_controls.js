// Collects every control that was visible at any time, and every control that a user operated.
(() => {
  const SELECTOR = "a[href], button, input:not([aria-hidden]), select, textarea, summary";
  const seen = new Map();
  const operated = new Set();
  const nameOf = (one) => {
    const label = one.labels?.[0]?.textContent ?? one.textContent;
    const text = label.replace(/[\d.,:]+.*$/s, "").trim();
    const alike = ["entity", "example"].find((name) => one.classList.contains(name));
    const kind = alike ?? (one.id || text);
    return `${one.tagName.toLowerCase()} ${kind}`;
  };
  const scan = () => {
    for (const one of document.querySelectorAll(SELECTOR)) {
      if (!one.checkVisibility() || one.disabled || nameOf(one).endsWith(" ")) continue; // its text is to come
      const view = one.closest(".view")?.id.replace("view-", "") ?? "";
      seen.set(nameOf(one), { view, element: one });
    }
  };
  const operate = (event) => {
    const one = event.target.closest?.(SELECTOR);
    if (one) operated.add(nameOf(one));
  };
  for (const type of ["pointerdown", "keydown", "input", "change"]) addEventListener(type, operate, true);
  const options = { childList: true, subtree: true, attributes: true };
  new MutationObserver(scan).observe(document, options);
  window.unusedControls = (view) => {
    scan();
    const isUnused = ([name, one]) => ["", view].includes(one.view) && !operated.has(name);
    return [...seen].filter(isUnused).map(([name, one]) => `${name}: ${one.element.outerHTML.slice(0, 120)}`);
  };
})();
