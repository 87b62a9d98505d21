/** An invalid field in a request: where it is, such as body.name, and what is wrong. */
export interface FieldFault {
  location: string;
  message: string;
}

/**
 * The failure of a request.
 *
 * status is the status of the response, or 0 if there was none. detail says in plain words what to do about the failure.
 */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly fields: FieldFault[] = [],
    readonly requestId = "",
    /** The number of seconds until the request may be repeated, or 0 if the API has not set it. */
    readonly retryAfter = 0,
  ) {
    super(detail || title);
    this.name = "Problem";
  }

  /** Whether the API may have carried out the request nevertheless: no response says that it has not. */
  get unknown(): boolean {
    return this.status === 0 || this.status >= 500;
  }

  /** Whether the object has changed since it was read. */
  get stale(): boolean {
    return this.status === 412;
  }
}

/** Returns the problem of a request without a response. */
export function unreachable(): Problem {
  return navigator.onLine
    ? new Problem(0, "No answer", "The API did not answer, or the connection was cut. Try again.")
    : new Problem(0, "Offline", "This device is offline. What is shown may be old; try again when it is connected.");
}

/** The maximum length of a problem document in characters. A longer text does not come from the API. */
const longest = 64 * 1024;

/** Reads a problem document (RFC 9457). For a response in another format, for example from a proxy, it makes a problem from the status. */
export async function problemOf(response: Response): Promise<Problem> {
  const retryAfter = Number.parseInt(response.headers.get("Retry-After") ?? "", 10) || 0;
  const requestId = response.headers.get("X-Request-Id") ?? "";
  let said: Record<string, unknown> = {};
  try {
    const text = await response.text();
    const parsed: unknown = text.length <= longest ? JSON.parse(text) : {};
    if (typeof parsed === "object" && parsed !== null) said = parsed as Record<string, unknown>;
  } catch {
    // The body is not JSON or was cut. The status is enough.
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
