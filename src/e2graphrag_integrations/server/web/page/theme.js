// Runs before the first paint, so that the page does not appear in the wrong theme.
(() => {
  try {
    const theme = localStorage.getItem("e2graphrag:theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is blocked: the theme of the system applies.
  }
})();
