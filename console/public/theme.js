// Sets the chosen colours before anything is painted; without a choice they follow the system.
try {
  const theme = localStorage.getItem("hotset-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden: then the system decides.
}
