import { createContext, type ComponentType } from "preact";
import { useContext } from "preact/hooks";
import type { Operation } from "./api/client";

/** What every page is given: the names that its path has, such as { bucket: "partners" }. */
export interface PageProps {
  params: Record<string, string>;
}

/** A page, as src/pages.ts registers it. */
export interface Page {
  /** Its address behind #; parts with a colon are names. */
  path: string;
  /** Its heading, and the first words of the window's title; params with a colon stand for what they are. */
  title: string;
  /** Where the navigation has it, and by which word; pages without are reached from others. */
  nav?: { section: Section; label: string };
  /** The operation without which there is nothing to see: who may not call it is not offered the page. */
  needs?: Operation;
  /** The command that tells the same, in which :bucket stands for what the path has. */
  cli?: string;
  /** A letter that opens it, after g. */
  key?: string;
  /** The path of the page that is one step up, for one that the navigation does not have. */
  up?: string;
  /** Its code, which is loaded when it is first opened. */
  load: () => Promise<{ default: ComponentType<PageProps> }>;
}

/** The parts of the navigation, in their order. */
export const sections = ["", "Gateway", "Consumers", "Network", "Account"] as const;
export type Section = (typeof sections)[number];

/** All pages, which main.tsx provides. Pages and their parts cannot import src/pages.ts, because it imports every page. */
export const Pages = createContext<readonly Page[]>([]);

/** Returns all pages, in the order of the navigation. */
export function usePages(): readonly Page[] {
  return useContext(Pages);
}
