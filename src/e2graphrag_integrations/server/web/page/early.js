// Runs before the first paint, so that the page appears neither in the wrong theme nor in the wrong language.
(() => {
  const root = document.documentElement;
  const stored = (name) => {
    try {
      return localStorage.getItem(`e2graphrag:${name}`);
    } catch {
      return null; // storage is blocked: the system decides
    }
  };
  const theme = stored("theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  // Without storage, the switch puts the language into the address.
  const wanted = [new URLSearchParams(location.search).get("lang"), stored("language"), ...navigator.languages];
  const code = wanted.map((one) => /^(en|zh)\b/i.exec(one ?? "")?.[1].toLowerCase()).find(Boolean);
  root.lang = code === "zh" ? "zh-Hans" : "en";
})();
