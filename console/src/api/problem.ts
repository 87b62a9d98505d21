/** One field that an answer finds fault with: where it is, such as body.name, and what is wrong with it. */
export interface FieldFault {
  location: string;
  message: string;
}

/**
 * What came of a request instead of what was asked for.
 *
 * status is the answer's, or 0 where none came. detail says what to do about it, in words for a person.
 */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly fields: FieldFault[] = [],
    readonly requestId = "",
    /** Seconds after which the API may be asked again; 0 where it did not say. */
    readonly retryAfter = 0,
  ) {
    super(detail || title);
    this.name = "Problem";
  }

  /** Whether what was asked for may have been done nevertheless: no answer says that it was not. */
  get unknown(): boolean {
    return this.status === 0 || this.status >= 500;
  }

  /** Whether what is changed has become another since it was read. */
  get stale(): boolean {
    return this.status === 412;
  }
}

/** The problem for a request that no answer came to. */
export function unreachable(): Problem {
  return navigator.onLine
    ? new Problem(0, "No answer", "The API did not answer, or the connection was cut. Try again.")
    : new Problem(0, "Offline", "This device is offline. What is shown may be old; try again when it is connected.");
}

/** The longest problem that is read: one that says more is no problem of the API's. */
const longest = 64 * 1024;

/** Reads a problem document (RFC 9457). An answer of something in between, which may be of any form, is told by its status. */
export async function problemOf(response: Response): Promise<Problem> {
  const retryAfter = Number.parseInt(response.headers.get("Retry-After") ?? "", 10) || 0;
  const requestId = response.headers.get("X-Request-Id") ?? "";
  let said: Record<string, unknown> = {};
  try {
    const text = await response.text();
    const parsed: unknown = text.length <= longest ? JSON.parse(text) : {};
    if (typeof parsed === "object" && parsed !== null) said = parsed as Record<string, unknown>;
  } catch {
    // It is no JSON, or was cut: the status tells enough.
  }
  const words = (value: unknown, otherwise: string) => (typeof value === "string" ? value : otherwise);
  const fields = Array.isArray(said["errors"])
    ? said["errors"].flatMap((f: Partial<FieldFault> | null) =>
        typeof f?.location === "string" && typeof f.message === "string" ? [{ location: f.location, message: f.message }] : [])
    : [];
  const title = words(said["title"], response.statusText || `Status ${response.status}`);
  const detail = words(said["detail"], response.status >= 500
    ? "The API could not answer this. Nothing is known to have changed; try again."
    : "The API, or something in front of it, refused this.");
  const trace = said["trace"] as { requestId?: unknown } | undefined;
  return new Problem(response.status, title, detail, fields, words(trace?.requestId, requestId), retryAfter);
}
