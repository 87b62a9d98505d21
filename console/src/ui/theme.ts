import { Store } from "../store";

/** The theme that a person has chosen: that of the system, light or dark. */
export type Theme = "system" | "light" | "dark";

const key = "gatewright-theme";

function chosen(): Theme {
  try {
    const value = window.localStorage.getItem(key);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

export const theme = new Store<Theme>(chosen());

/** Applies and stores a choice. It is the only thing that the console stores in this browser. */
export function choose(value: Theme): void {
  apply(value);
  try {
    if (value === "system") window.localStorage.removeItem(key);
    else window.localStorage.setItem(key, value);
  } catch {
    // If the browser stores nothing, the choice lasts until the page is closed.
  }
  theme.set(value);
}

/** Sets the attribute that selects the theme in the style sheet. */
export function apply(value: Theme): void {
  if (value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
}
