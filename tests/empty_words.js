// Reports texts and labels of the page that show a missing value, such as null, as an error of the console.
(() => {
  const MISSING = /(^|[^\w.$"'-])(null|undefined|NaN)(?![\w.$"'(-])|\[object \w+\]/;
  const LABELS = ["aria-label", "title", "placeholder", "alt"];
  const report = (text) => {
    if (MISSING.test(text ?? "")) console.error(`the page shows a missing value: ${text}`);
  };
  const check = (node) => {
    if (node.nodeType === Node.TEXT_NODE) {
      if (!["SCRIPT", "STYLE"].includes(node.parentNode?.nodeName)) report(node.data);
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    for (const name of LABELS) report(node.getAttribute(name));
    for (const child of node.childNodes) check(child);
  };
  const observer = new MutationObserver((changes) => {
    for (const { type, target, addedNodes } of changes) {
      if (type === "childList") addedNodes.forEach(check);
      else if (type === "characterData") check(target);
      else for (const name of LABELS) report(target.getAttribute(name));
    }
  });
  observer.observe(document, { childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: LABELS });
})();
