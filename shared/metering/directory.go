package metering

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/bounded"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/flight"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// Staleness is how long after a change a gateway may go by what was before, with readTimeout
	// on top when the table is slow.
	Staleness   = 5 * time.Second
	readTimeout = 2 * time.Second
	// maxCustomers is how many customers are remembered, some kilobytes each.
	maxCustomers = 16_384
)

// Directory knows the standing of customers, for a gateway. It is safe for concurrent use.
//
// A customer that is asked for first costs three reads, all who ask meanwhile wait for the same, and
// none follows within Staleness. A boundary that passes meanwhile is seen at once: what is remembered
// is the subscriptions, and what they are now follows from the clock.
type Directory struct {
	table   *store.Table
	now     func() time.Time
	flights flight.Group[*customer]

	mu        sync.Mutex
	customers map[customerID]*customer
}

// customerID is whom a gateway asks for.
type customerID struct{ account, bucket, key string }

// NewDirectory makes the Directory of an installation.
func NewDirectory(p installation.Parts) *Directory {
	return &Directory{table: p.Table, now: p.Now, customers: map[customerID]*customer{}}
}

var errNoCustomer = fault.New(fault.NotFound, "The customer has no subscription in the metering bucket. Make one with its customerKey.")

// Standing gives the standing of a customer, by the subscription that counts (Status.rank). It answers
// NotFound for one without a subscription and for a bucket that is not the account's. After any other
// error nothing is remembered.
func (d *Directory) Standing(ctx context.Context, accountID, bucketID, customerKey string) (Standing, error) {
	if len(bucketID) > MaxExternalChars || len(customerKey) > 4*MaxExternalChars { // they would be no keys, and nobody has them
		return Standing{}, errNoCustomer
	}
	id := customerID{accountID, bucketID, customerKey}
	if its := d.remembered(id); its != nil {
		return its.standing(d.now())
	}
	its, err := d.flights.Do(ctx, fmt.Sprintf("%q %q %q", accountID, bucketID, customerKey), readTimeout, func(ctx context.Context) (*customer, error) {
		return d.look(ctx, id)
	})
	if err != nil {
		return Standing{}, err
	}
	return its.standing(d.now())
}

// remembered gives what is known of a customer, nil for nothing that is fresh.
func (d *Directory) remembered(id customerID) *customer {
	d.mu.Lock()
	defer d.mu.Unlock()
	its := d.customers[id]
	if its == nil {
		return nil
	}
	if age := d.now().Sub(its.looked); age < 0 || age >= Staleness { // below 0 the clock was set back
		return nil
	}
	return its
}

func (d *Directory) keep(id customerID, its *customer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bounded.Put(d.customers, id, its, maxCustomers)
}

// look reads what there is of a customer, and remembers it.
func (d *Directory) look(ctx context.Context, id customerID) (*customer, error) {
	its := &customer{looked: d.now()}
	rows, err := store.Collect[pointer](ctx, d.table, store.Query{
		PK: customerPartition(id.bucket, id.key), Descending: true, Limit: considered,
	})
	if err != nil {
		return nil, fmt.Errorf("read a customer's subscriptions: %w", err)
	}
	if len(rows) > 0 {
		if err := d.read(ctx, id, its, rows); err != nil {
			return nil, err
		}
	}
	d.keep(id, its)
	return its, nil
}

// read reads the subscriptions of rows, where the bucket is the account's, and then their plans.
func (d *Directory) read(ctx context.Context, id customerID, its *customer, rows []pointer) error {
	all := make([]record, len(rows))
	bucket := store.Want(bucketKey(id.account, id.bucket), nil)
	wanted := []*store.Wanted{bucket}
	for i, row := range rows {
		wanted = append(wanted, store.Want(subscriptionKey(id.bucket, row.ID), &all[i]))
	}
	if err := d.table.Load(ctx, wanted...); err != nil {
		return fmt.Errorf("read subscriptions: %w", err)
	}
	if !bucket.Found {
		return nil
	}
	// One that was deleted in between has no record.
	its.all = slices.DeleteFunc(all, func(r record) bool { return r.ID == "" })
	var err error
	its.plans, err = plansOf(ctx, d.table, id.bucket, its.all)
	return err
}
