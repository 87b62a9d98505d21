import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { holder, session } from "../api/session";
import { Store, useStore } from "../store";
import { announce } from "../ui/live";
import { Text } from "../ui/text";

/**
 * How long a revoked key may be believed yet, in seconds: an API key by a gateway, unless the route says longer by cacheTtlSeconds (docs/limits.md), and an account key by a process of
 * the API (docs/account-keys.md).
 */
const believedFor = 60;

/** A key that was revoked here, of a consumer, and when it was, by the clock below. */
interface Gone {
  consumer: string;
  key: string;
  at: number;
}

const gone = new Store<Gone[]>([]);

/** Milliseconds that go by the same whatever becomes of the device's clock: set forward, it would say too early that a key is refused. */
const clock = () => performance.now();

// Who signs in by another key sees none of them.
let last = holder();
session.subscribe(() => {
  if (holder() === last) return;
  last = holder();
  gone.set([]);
});

/** Notes that a key is revoked from now on, for the pages that count down until gateways refuse it. key is what is shown of it. */
export function revoked(consumer: string, key: string): void {
  const now = clock();
  gone.set([...gone.get().filter((g) => now - g.at < believedFor * 10_000), { consumer, key, at: now }]);
}

/** Counts down until the keys of a consumer that were revoked here are refused by every gateway, and says when they are. */
export function Revoked({ of, children }: { of: string; /** Why it is not at once. */ children: ComponentChildren }) {
  const keys = useStore(gone).filter((g) => g.consumer === of);
  const [now, setNow] = useState(clock);
  const left = (g: Gone) => Math.max(0, Math.ceil(believedFor - (Math.max(now, g.at) - g.at) / 1000));
  const most = Math.max(0, ...keys.map(left));
  useEffect(() => {
    setNow(clock());
    if (keys.length === 0) return undefined;
    const timer = setInterval(() => setNow(clock()), 1_000);
    return () => clearInterval(timer);
  }, [keys.length, most === 0]);
  useEffect(() => {
    if (keys.length > 0 && most === 0) announce("The revoked keys are refused everywhere.");
  }, [keys.length, most === 0]);
  if (keys.length === 0) return null;
  return (
    <div class="section holding">
      <h2>Revoked just now</h2>
      <ul>
        {keys.map((g) => (
          <li key={g.key + g.at}>
            <code><Text value={g.key} /></code>{" "}
            {left(g) > 0 ? <>is refused everywhere in at most <strong class="mono">{left(g)} s</strong></> : <strong>is refused everywhere</strong>}
          </li>
        ))}
      </ul>
      <p class="faint">{children}</p>
      {most === 0 && <p><button type="button" onClick={() => gone.set(gone.get().filter((g) => g.consumer !== of))}>Dismiss</button></p>}
    </div>
  );
}
