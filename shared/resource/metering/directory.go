package metering

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/base/coalesce"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// Staleness is the maximum time that a gateway uses the previous state after a change. It is counted from the
	// beginning of a read.
	Staleness   = 5 * time.Second
	readTimeout = 2 * time.Second
	// maxCustomers is the maximum number of cached customers. Each customer takes some kilobytes.
	maxCustomers = 16_384
)

// Directory returns the states of customers to a gateway. It is safe for concurrent use.
//
// The first request for a customer takes up to three reads. Concurrent requests wait for the same reads, and no further
// read follows within Staleness. The end of a period or trial takes effect immediately: the cache contains the
// subscriptions, and their current state follows from the clock.
type Directory struct {
	table *store.Table
	now   func() time.Time
	loads coalesce.Group[*customer]

	mu        sync.Mutex
	customers map[customerID]*customer
}

// customerID identifies a customer in a request of a gateway.
type customerID struct{ account, bucket, key string }

// NewDirectory returns the Directory of an installation.
func NewDirectory(p installation.Parts) *Directory {
	return &Directory{table: p.Table, now: p.Now, customers: map[customerID]*customer{}}
}

var errNoCustomer = fault.New(fault.NotFound,
	"The customer has no subscription in the metering bucket. Make one with its customerKey.")

// CustomerState returns the state of a customer, which one subscription determines (Status.rank). It returns NotFound
// if the customer has no subscription, or if the bucket does not belong to the account. It caches this result, but no
// other error.
func (d *Directory) CustomerState(ctx context.Context, accountID, bucketID, customerKey string) (CustomerState, error) {
	// no bucket has such a long ID, and no customer such a long key
	if len(bucketID) > MaxExternalChars || len(customerKey) > 4*MaxExternalChars {
		return CustomerState{}, errNoCustomer
	}
	id := customerID{accountID, bucketID, customerKey}
	if c := d.cached(id); c != nil {
		return c.state(d.now())
	}
	c, err := d.loads.Do(ctx, fmt.Sprintf("%q %q %q", accountID, bucketID, customerKey), readTimeout,
		func(ctx context.Context) (*customer, error) {
			return d.load(ctx, id)
		})
	if err != nil {
		return CustomerState{}, err
	}
	return c.state(d.now())
}

// cached returns the cached customer, or nil if it is missing or stale.
func (d *Directory) cached(id customerID) *customer {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.customers[id]
	if c == nil {
		return nil
	}
	if age := d.now().Sub(c.readAt); age < 0 || age >= Staleness { // a negative age means that the clock was set back
		return nil
	}
	return c
}

func (d *Directory) store(id customerID, c *customer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bounded.Put(d.customers, id, c, maxCustomers)
}

// load reads a customer and caches it.
func (d *Directory) load(ctx context.Context, id customerID) (*customer, error) {
	c := &customer{readAt: d.now()}
	rows, err := store.Collect[pointer](ctx, d.table, store.Query{
		PK: customerPartition(id.bucket, id.key), Descending: true, Limit: maxCustomerSubscriptions,
	})
	if err != nil {
		return nil, fmt.Errorf("read a customer's subscriptions: %w", err)
	}
	if len(rows) > 0 {
		if err := d.read(ctx, id, c, rows); err != nil {
			return nil, err
		}
	}
	d.store(id, c)
	return c, nil
}

// read reads the subscriptions of rows and then their plans, if the bucket belongs to the account.
func (d *Directory) read(ctx context.Context, id customerID, c *customer, rows []pointer) error {
	all := make([]record, len(rows))
	bucket := store.Get(bucketKey(id.account, id.bucket), nil)
	gets := []*store.ReadRequest{bucket}
	for i, row := range rows {
		gets = append(gets, store.Get(subscriptionKey(id.bucket, row.ID), &all[i]))
	}
	if err := d.table.Load(ctx, gets...); err != nil {
		return fmt.Errorf("read subscriptions: %w", err)
	}
	if !bucket.Found {
		return nil
	}
	// A subscription that was deleted between the two reads has no record.
	c.subscriptions = slices.DeleteFunc(all, func(r record) bool { return r.ID == "" })
	var err error
	c.plans, err = plansOf(ctx, d.table, id.bucket, c.subscriptions)
	return err
}
