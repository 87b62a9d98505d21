import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { holder, session } from "../api/session";
import { Store, useStore } from "../store";
import { announce } from "../ui/live";
import { Text } from "../ui/text";

/**
 * How long a revoked key may still be accepted, in seconds: an API key by a gateway, unless cacheTtlSeconds of the route is longer (docs/limits.md), and an
 * account key by a process of the API (docs/account-keys.md).
 */
const believedFor = 60;

/** A key of a consumer that was revoked here, and the time on the clock below. */
interface Gone {
  consumer: string;
  key: string;
  at: number;
}

const gone = new Store<Gone[]>([]);

/** Returns the time in milliseconds, independent of the device's clock. If that clock were set forward, it would report too early that a key is refused. */
const clock = () => performance.now();

// A person who signs in with another key must not see these keys.
let last = holder();
session.subscribe(() => {
  if (holder() === last) return;
  last = holder();
  gone.set([]);
});

/** Records that a key is revoked now, for the pages that count down until gateways refuse it. key is the text that stands for the key. */
export function revoked(consumer: string, key: string): void {
  const now = clock();
  gone.set([...gone.get().filter((g) => now - g.at < believedFor * 10_000), { consumer, key, at: now }]);
}

/** Counts down until every gateway refuses the keys of a consumer that were revoked here, and announces when they do. */
export function Revoked({ of, children }: { of: string; /** Why the revocation takes time. */ children: ComponentChildren }) {
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
