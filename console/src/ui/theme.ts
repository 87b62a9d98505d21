import { Store } from "../store";

/** The look that a person has chosen: the system's, or one of both. */
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

/** Applies a choice, and keeps it: the only thing that this browser keeps of the console. */
export function choose(value: Theme): void {
  apply(value);
  try {
    if (value === "system") window.localStorage.removeItem(key);
    else window.localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing has the choice for as long as the page is there.
  }
  theme.set(value);
}

/** Sets what the style goes by. */
export function apply(value: Theme): void {
  if (value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
}
