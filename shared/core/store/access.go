package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/base/dryrun"
)

// TableAccess is the set of key prefixes of the table that a part of the product, such as a function, accesses.
// In AWS the function's role is limited to them (dynamodb:LeadingKeys). Everywhere else the function's Table is
// limited to them (Restrict). So every access that the role would refuse also fails in tests and in local runs.
type TableAccess struct {
	// Reads are the key prefixes of the items that the function gets and queries.
	// Writes are the key prefixes of the items that it puts, updates, deletes and
	// checks. An index is not included: it has only keys, and a separate grant.
	Reads, Writes []KeyPrefix
	// Scans means that the function also reads the whole table (Table.Page), with all prefixes. A Scan names no
	// partition, so no role can limit a Scan to some prefixes. Scans are for work on all items, which no request does.
	Scans bool
	// DryRunReads are further prefixes that the function reads in a dry run. A dry run also reads the prefixes in
	// Writes. In AWS only one function makes dry runs: it has the operations of all other functions (WithDryRuns).
	DryRunReads []KeyPrefix
}

// Union returns the union of a and others. Each prefix is in it once, and the prefixes are sorted.
func (a TableAccess) Union(others ...TableAccess) TableAccess {
	var all TableAccess
	for _, access := range append([]TableAccess{a}, others...) {
		all.Reads, all.Writes, all.DryRunReads = append(all.Reads, access.Reads...), append(all.Writes, access.Writes...),
			append(all.DryRunReads, access.DryRunReads...)
		all.Scans = all.Scans || access.Scans
	}
	for _, prefixes := range []*[]KeyPrefix{&all.Reads, &all.Writes, &all.DryRunReads} {
		slices.Sort(*prefixes)
		*prefixes = slices.Compact(*prefixes)
	}
	return all
}

// WithDryRuns returns the access of a function that also makes dry runs.
func (a TableAccess) WithDryRuns() TableAccess {
	return a.Union(TableAccess{Reads: slices.Concat(a.Writes, a.DryRunReads)})
}

// Restrict returns the table limited to an access. A call that names a partition of another
// prefix makes no request to the database. Its error names the prefix but no part of a key.
func (t *Table) Restrict(access TableAccess) *Table {
	restricted := *t
	backend := &restrictedBackend{t.backend, access, access.WithDryRuns().Reads}
	restricted.backend = backend
	if pager, ok := t.backend.(Pager); ok && access.Scans {
		restricted.backend = &restrictedPager{backend, pager}
	}
	return &restricted
}

// restrictedPager is a restrictedBackend that also returns pages of all items.
type restrictedPager struct {
	*restrictedBackend
	Pager
}

// restrictedBackend is a Backend that refuses calls outside its access.
type restrictedBackend struct {
	Backend
	access TableAccess
	// dryRunReads are the prefixes that may be read in a dry run.
	dryRunReads []KeyPrefix
}

// readable returns the prefixes that may be read under ctx.
func (b *restrictedBackend) readable(ctx context.Context) []KeyPrefix {
	if dryrun.Active(ctx) {
		return b.dryRunReads
	}
	return b.access.Reads
}

// Read implements Backend.
func (b *restrictedBackend) Read(ctx context.Context, keys []Key) ([]Item, error) {
	for _, k := range keys {
		if err := checkAccess("reads", b.readable(ctx), k.PK); err != nil {
			return nil, err
		}
	}
	return b.Backend.Read(ctx, keys)
}

// Query implements Backend.
func (b *restrictedBackend) Query(ctx context.Context, q Query) ([]Item, string, error) {
	if q.Index == "" {
		if err := checkAccess("queries", b.readable(ctx), q.PK); err != nil {
			return nil, "", err
		}
	}
	return b.Backend.Query(ctx, q)
}

// Transact implements Backend.
func (b *restrictedBackend) Transact(ctx context.Context, token string, writes []Write) error {
	for _, w := range writes {
		if IsToken(w.Key) {
			continue // only a Table with Options.KeepTokens writes tokens, and in AWS no Table has this option
		}
		if err := checkAccess("writes", b.access.Writes, w.Key.PK); err != nil {
			return err
		}
	}
	return b.Backend.Transact(ctx, token, writes)
}

func checkAccess(action string, allowed []KeyPrefix, partition string) error {
	if prefix := KeyPrefixOf(partition); !slices.Contains(allowed, prefix) {
		return fmt.Errorf("store: %s the prefix %q, which is not declared: add it to the TableAccess", action, prefix)
	}
	return nil
}
