import { createContext, type ComponentType } from "preact";
import { useContext } from "preact/hooks";
import type { Operation } from "./api/client";

/** The properties of every page: the values of the names in its path, such as { bucket: "partners" }. */
export interface PageProps {
  params: Record<string, string>;
}

/** A page, as src/pages.ts registers it. */
export interface Page {
  /** Its address behind #. Parts that begin with a colon are names. */
  path: string;
  /** The first words of the title of the window, and usually the heading. Names with a colon are replaced by their values. */
  title: string;
  /** Its section and label in the navigation. Pages without it are reached from other pages. */
  nav?: { section: Section; label: string };
  /** The operation that the page cannot do without. The page is not offered to a key that may not call it. */
  needs?: Operation;
  /** The command that shows the same. A name such as :bucket stands for its value in the path. */
  cli?: string;
  /** The letter that opens it after the letter g. */
  key?: string;
  /** The path of the parent page, for a page that is not in the navigation. */
  up?: string;
  /** Loads its code. It is called when the page is first opened. */
  load: () => Promise<{ default: ComponentType<PageProps> }>;
}

/** The sections of the navigation, in their order. */
export const sections = ["", "Gateway", "Consumers", "Network", "Account"] as const;
export type Section = (typeof sections)[number];

/** All pages, which main.tsx provides. Pages and their parts cannot import src/pages.ts, because it imports every page. */
export const Pages = createContext<readonly Page[]>([]);

/** Returns all pages, in the order of the navigation. */
export function usePages(): readonly Page[] {
  return useContext(Pages);
}
