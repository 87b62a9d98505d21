package dev

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/project"
)

// consumerName is the consumer of each bucket that is made here.
const consumerName = "dev"

// maxKeyFileBytes bounds what is read of a file of keys.
const maxKeyFileBytes = 1 << 20

// keyEntry is a key of a consumer, as Options.KeyFile has it.
type keyEntry struct {
	// Bucket is the name or the id by which a policy names it, "" for the project's own.
	Bucket   string `json:"bucket"`
	Consumer string `json:"consumer"`
	Key      string `json:"key"`
	// Data is the consumer's metadata, a JSON object, or nothing.
	Data json.RawMessage `json:"data,omitempty"`
}

// customers are the consumers and what they have bought. They are safe for concurrent use.
type customers struct {
	ids   *ids.Source
	file  string
	units int64
	now   func() time.Time

	mu      sync.RWMutex
	entries []keyEntry
	meters  map[string]int64
}

var (
	_ policy.Keys          = (*customers)(nil)
	_ policy.Subscriptions = (*customers)(nil)
)

func openCustomers(o Options, source *ids.Source) (*customers, error) {
	c := &customers{ids: source, file: o.KeyFile, units: o.Units, now: time.Now}
	if c.file == "" {
		return c, nil
	}
	var err error
	c.entries, err = readKeys(c.file)
	return c, err
}

// readKeys reads a file of keys, none of one that is not there.
func readKeys(file string) ([]keyEntry, error) {
	// To open a pipe would wait for who writes to it.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return nil, &UsageError{fmt.Sprintf("the file of keys %s is no ordinary file: name another", output.Printable(file))}
	}
	f, err := os.Open(file) //nolint:gosec // its user names it
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("the file of keys %s can't be read: %v", output.Printable(file), disk.Cause(err))}
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the file of keys %s: %w", output.Printable(file), disk.Cause(err))
	}
	if !info.Mode().IsRegular() {
		return nil, &UsageError{fmt.Sprintf("the file of keys %s is no ordinary file: name another", output.Printable(file))}
	}
	if disk.Exposed(info.Mode()) {
		return nil, &UsageError{fmt.Sprintf("others can read the file of keys %s: make it yours alone (chmod 600)", output.Printable(file))}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFileBytes+1))
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("the file of keys %s can't be read: %v", output.Printable(file), disk.Cause(err))}
	}
	var out []keyEntry
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil || len(data) > maxKeyFileBytes || slices.ContainsFunc(out, func(e keyEntry) bool { return e.Consumer == "" || e.Key == "" }) {
		// What is wrong is not repeated: it may be a key.
		return nil, &UsageError{fmt.Sprintf(`the file of keys %s is not a list of {"bucket", "consumer", "key", "data"}: correct it, or remove it to have one made`, output.Printable(file))}
	}
	return out, nil
}

// bind gives an artifact the buckets that its policies name, and makes a consumer with a key in each that has none. It
// answers those.
func (c *customers) bind(a *project.Artifact) (made []keyEntry, err error) {
	meters, wanted := map[string]int64{}, map[string]bool{}
	for name, p := range a.Policies {
		if bucket, _, ok := policy.WantedBucket(p); ok {
			if a.Buckets == nil {
				a.Buckets = map[string]project.KeyBucket{}
			}
			a.Buckets[name] = project.KeyBucket{ID: bucket, Name: bucket}
			wanted[bucket] = true
		}
		if _, _, ok := policy.WantedMeteringBucket(p); ok {
			var o struct {
				Meters map[string]json.RawMessage `json:"meters"`
			}
			if json.Unmarshal(p.Handler.Options, &o) == nil { // the compiler has read it
				for name := range o.Meters {
					meters[name] = c.units
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meters = meters
	var unread error
	if c.file != "" { // another run may have written to it
		kept, err := readKeys(c.file)
		if unread = err; len(kept) > 0 {
			c.entries = kept
		}
	}
	for _, bucket := range slices.Sorted(maps.Keys(wanted)) {
		if !slices.ContainsFunc(c.entries, func(e keyEntry) bool { return e.Bucket == bucket }) {
			made = append(made, keyEntry{Bucket: bucket, Consumer: consumerName, Key: credential.New(credential.ConsumerKey, c.ids)})
		}
	}
	c.entries = append(c.entries, made...)
	if c.file == "" || len(made) == 0 || unread != nil { // what its user is writing there is not written over
		return made, unread
	}
	return made, writeKeys(c.file, c.entries)
}

// writeKeys replaces a file of keys: whole or not at all.
func writeKeys(file string, entries []keyEntry) error {
	data, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return fmt.Errorf("encode keys: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".gatewright-keys-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write the file of keys %s: %w", output.Printable(file), disk.Cause(err))
	}
	_, err = f.Write(append(data, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write the file of keys %s: %w", output.Printable(file), disk.Cause(err))
	}
	return nil
}

// Verify implements policy.Keys.
func (c *customers) Verify(_ context.Context, ref policy.BucketRef, key string) (policy.Identity, error) {
	given := sha256.Sum256([]byte(key))
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		its := sha256.Sum256([]byte(e.Key))
		if e.Bucket == ref.ID && subtle.ConstantTimeCompare(its[:], given[:]) == 1 {
			return policy.Identity{Sub: e.Consumer, Data: e.Data}, nil
		}
	}
	return policy.Identity{}, fault.New(fault.Unauthenticated, "The key opens nothing here.")
}

// subscriptionID is the one subscription that each customer has.
const subscriptionID = "dev"

// Standing implements policy.Subscriptions: each customer of each metering bucket has an active subscription, with so many
// units of each meter in a calendar month.
func (c *customers) Standing(_ context.Context, _, bucketID, customerKey string) (policy.Standing, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	period := meter.At(time.Unix(0, 0), meter.Monthly, c.now())
	return policy.Standing{
		Subscription: strings.Join([]string{subscriptionID, bucketID, customerKey}, "/"), Status: "active",
		Quotas: c.meters, From: period.From, To: period.To,
	}, nil
}
