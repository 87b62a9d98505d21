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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/format/project"
)

// consumerName is the name of the consumer that is created in each bucket without keys.
const consumerName = "dev"

// maxKeyFileBytes is the maximum size of a file of keys.
const maxKeyFileBytes = 1 << 20

// keyEntry is a key of a consumer in the file Options.KeyFile.
type keyEntry struct {
	// Bucket is the name or ID of a bucket in a policy's options, "" for the project's own bucket.
	Bucket   string `json:"bucket"`
	Consumer string `json:"consumer"`
	Key      string `json:"key"`
	// Data is the consumer's metadata: a JSON object, nil for none.
	Data json.RawMessage `json:"data,omitempty"`
}

// customers are the consumers and their subscriptions. They are safe for concurrent use.
type customers struct {
	ids   *ids.Source
	file  string
	units int64
	now   func() time.Time

	mu      sync.RWMutex
	entries []keyEntry
	// meters has the number of units per month of each meter that the project's policies name.
	meters map[string]int64
}

var (
	_ policy.Keys               = (*customers)(nil)
	_ policy.SubscriptionReader = (*customers)(nil)
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

// readKeys reads a file of keys. It returns no keys for a missing file.
func readKeys(file string) ([]keyEntry, error) {
	// Opening a pipe would block until another process writes to it.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return nil, &UsageError{fmt.Sprintf("the file of keys %s is no ordinary file: name another", output.Printable(file))}
	}
	f, err := os.Open(file) //nolint:gosec // G304: a file that the user names
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
		return nil, &UsageError{fmt.Sprintf("others can read the file of keys %s: make it yours alone (chmod 600)",
			output.Printable(file))}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFileBytes+1))
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("the file of keys %s can't be read: %v", output.Printable(file), disk.Cause(err))}
	}
	var out []keyEntry
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil || len(data) > maxKeyFileBytes || slices.ContainsFunc(out, func(e keyEntry) bool {
		return e.Consumer == "" || e.Key == ""
	}) {
		// The error does not repeat the content, which may be a key.
		return nil, &UsageError{
			fmt.Sprintf(
				`the file of keys %s is not a list of {"bucket", "consumer", "key", "data"}: `+
					`correct it, or remove it to have one made`, output.Printable(file)),
		}
	}
	return out, nil
}

// addBuckets adds to an artifact the buckets that its policies name. In each bucket without keys, it creates a consumer
// with a key. It returns the new keys, also if it returns an error because the file of keys cannot be read or written.
// It also records the meters that the policies name.
func (c *customers) addBuckets(a *project.Artifact) (created []keyEntry, err error) {
	meters, needed := map[string]int64{}, map[string]bool{}
	for name, p := range a.Policies {
		if bucket, _, ok := policy.BucketOption(p); ok {
			if a.Buckets == nil {
				a.Buckets = map[string]project.KeyBucket{}
			}
			a.Buckets[name] = project.KeyBucket{ID: bucket, Name: bucket}
			needed[bucket] = true
		}
		if _, _, ok := policy.MeteringBucketOption(p); ok {
			var o struct {
				Meters map[string]json.RawMessage `json:"meters"`
			}
			if json.Unmarshal(p.Handler.Options, &o) == nil { // the compiler has validated it
				for name := range o.Meters {
					meters[name] = c.units
				}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meters = meters
	var readErr error
	if c.file != "" { // read the file again: another process may have changed it
		saved, err := readKeys(c.file)
		if readErr = err; len(saved) > 0 {
			c.entries = saved
		}
	}
	for _, bucket := range slices.Sorted(maps.Keys(needed)) {
		if !slices.ContainsFunc(c.entries, func(e keyEntry) bool { return e.Bucket == bucket }) {
			created = append(created, keyEntry{
				Bucket: bucket, Consumer: consumerName,
				Key: credential.New(credential.ConsumerKey, c.ids),
			})
		}
	}
	c.entries = append(c.entries, created...)
	if c.file == "" || len(created) == 0 || readErr != nil { // do not overwrite a file that the user is editing
		return created, readErr
	}
	return created, writeKeys(c.file, c.entries)
}

// writeKeys replaces a file of keys. If it fails, the old file stays complete.
func writeKeys(file string, entries []keyEntry) error {
	data, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return fmt.Errorf("encode keys: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".gatewright-keys-*") // CreateTemp uses mode 0600
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
func (c *customers) Verify(_ context.Context, ref policy.BucketRef, key string) (policy.KeyOwner, error) {
	presented := sha256.Sum256([]byte(key))
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.entries {
		stored := sha256.Sum256([]byte(e.Key))
		if e.Bucket == ref.ID && subtle.ConstantTimeCompare(stored[:], presented[:]) == 1 {
			return policy.KeyOwner{Sub: e.Consumer, Data: e.Data}, nil
		}
	}
	return policy.KeyOwner{}, fault.New(fault.Unauthenticated, "The key opens nothing here.")
}

// subscriptionPrefix is the first part of the ID of each customer's only subscription.
const subscriptionPrefix = "dev"

// CustomerState implements policy.Subscriptions. Each customer of each metering bucket has an active subscription, with
// Options.Units units of each meter per calendar month.
func (c *customers) CustomerState(_ context.Context, _, bucketID, customerKey string) (policy.CustomerState, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	period := meter.At(time.Unix(0, 0), meter.Monthly, c.now())
	return policy.CustomerState{
		Subscription: strings.Join([]string{subscriptionPrefix, bucketID, customerKey}, "/"), Status: "active",
		Quotas: c.meters, From: period.From, To: period.To,
	}, nil
}
