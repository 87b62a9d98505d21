package keys

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/core/store"
)

// newestQuery returns a function for target.query. It reads a page of the consumer's key records into rows, the newest
// first. The zero Page means all records.
func (s *Service) newestQuery(rows *[]keyRecord, page store.Page) func(context.Context, generation, string) error {
	return func(ctx context.Context, g generation, consumer string) (err error) {
		*rows, err = store.Collect[keyRecord](ctx, s.table, store.Query{
			PK: consumerKeyPartition(g, consumer), Descending: true, After: page.After, Offset: page.Offset, Limit: page.Limit,
			Unchecked: keysUncheckedReason,
		})
		return err
	}
}

// visibleKeys returns the visible keys among rows, the newest first. rows are the newest key records of the consumer in
// v. If the overlay may hide some of the consumer's keys, visibleKeys reads all its key records and returns all visible
// keys.
func (s *Service) visibleKeys(ctx context.Context, v view, rows []keyRecord) ([]keyRecord, error) {
	if v.bucket.Changes.Hides(v.consumer.Name) {
		if err := s.newestQuery(&rows, store.Page{})(ctx, v.generation, v.consumer.Name); err != nil {
			return nil, err
		}
	}
	return v.existingKeys(rows)
}

// includedKeys returns the newest keys of a consumer in a format, at most maxIncludedKeys.
func (s *Service) includedKeys(ctx context.Context, v view, rows []keyRecord, f Format) ([]Key, error) {
	rows, err := s.visibleKeys(ctx, v, rows)
	if err != nil {
		return nil, err
	}
	return s.formatKeys(ctx, rows[:min(len(rows), maxIncludedKeys)], f)
}

func (s *Service) formatKeys(ctx context.Context, rows []keyRecord, f Format) ([]Key, error) {
	out := make([]Key, len(rows))
	for i, k := range rows {
		var err error
		if out[i], err = s.formatKey(ctx, k, f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ListKeys returns a page of a consumer's keys, the newest first, and their total number. The next page begins after
// the key whose id is next. next is "" after the last page.
func (s *Service) ListKeys(
	ctx context.Context, at ConsumerLocator, page store.Page, f Format,
) (out []Key, next string, total int, err error) {
	err = s.table.RunInTx(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		onePast := page
		onePast.Limit++ // one more key shows that there is a next page
		v, err := s.load(ctx, target{ConsumerLocator: at, query: s.newestQuery(&rows, onePast)})
		if err != nil {
			return err
		}
		next, total = "", v.consumer.KeyCount
		if rows, err = s.visibleKeys(ctx, v, rows); err != nil {
			return err
		}
		if v.bucket.Changes.Hides(v.consumer.Name) { // visibleKeys has returned all keys
			if page.After != "" {
				rows = slices.DeleteFunc(rows, func(k keyRecord) bool { return k.ID >= page.After })
			}
			rows = rows[min(page.Offset, len(rows)):]
		}
		if len(rows) > page.Limit {
			rows = rows[:page.Limit]
			next = rows[page.Limit-1].ID
		}
		out, err = s.formatKeys(ctx, rows, f)
		return err
	})
	return out, next, total, err
}

// Filter selects consumers. A consumer must match all fields.
type Filter struct {
	// Tags are tags that the consumer has.
	Tags map[string]string
	// ManagerEmail, if not "", is the address of one of the consumer's managers or invites. Upper and lower case are
	// equal.
	ManagerEmail string
	// NamePrefix is the beginning of the consumer's name.
	NamePrefix string
}

func (f Filter) properties() []property {
	out := make(map[property]bool)
	for key, value := range f.Tags {
		out[tagProperty(key, value)] = true
	}
	if f.ManagerEmail != "" {
		out[managerProperty(f.ManagerEmail)] = true
	}
	return sortedProperties(out)
}

// consumerPage is a page of a bucket's consumers, sorted by name.
type consumerPage struct {
	records []consumerRecord
	// next is the name of the page's last consumer, or "" if there are no more pages.
	next  string
	total int
}

// add adds the next consumer to the page and returns true. If the page has limit consumers, or if fits returns false,
// add ends the page before this consumer and returns false. fits must return true for the first consumer.
func (p *consumerPage) add(c consumerRecord, limit int, fits func() bool) bool {
	if n := len(p.records); n == limit || !fits() {
		p.next = p.records[n-1].Name
		return false
	}
	p.records = append(p.records, c)
	return true
}

// ListConsumers returns a page of the bucket's consumers, sorted by name, and their total number. The next page begins
// after the consumer whose name is next. next is "" after the last page.
func (s *Service) ListConsumers(
	ctx context.Context, at BucketLocator, f Filter, page store.Page, in Include,
) (out []Consumer, next string, total int, err error) {
	err = s.table.RunInTx(ctx, func(ctx context.Context) error {
		var found consumerPage
		var v view
		var err error
		if properties := f.properties(); len(properties) > 0 {
			v, found, err = s.listFiltered(ctx, at, properties, f.NamePrefix, page, in)
		} else {
			v, found, err = s.listAll(ctx, at, f.NamePrefix, page, in)
		}
		if err != nil {
			return err
		}
		records := found.records
		next, total = found.next, found.total
		out = make([]Consumer, len(records))
		for i, c := range records {
			out[i] = c.toConsumer(in)
		}
		if !in.Keys {
			return nil
		}
		if out, err = s.withKeys(ctx, v, records, out, in); err != nil {
			return err
		}
		if n := len(out); n < len(records) {
			next = records[n-1].Name
		}
		return nil
	})
	return out, next, total, err
}

// page returns the function that Include.Fits returns for a new page.
func (in Include) page() (fits func(Consumer) bool) {
	if in.Fits == nil {
		return func(Consumer) bool { return true }
	}
	return in.Fits()
}

// withKeys adds the keys to the given consumers, and returns the consumers up to the end of the page (Include.Fits).
// out has the consumers, and records has their records. 1,000 consumers with 100 keys each would have many times the
// maximum size of a response.
func (s *Service) withKeys(
	ctx context.Context, v view, records []consumerRecord, out []Consumer, in Include,
) ([]Consumer, error) {
	fits := in.page()
	for from := 0; from < len(out); from += maxConcurrency {
		to := min(from+maxConcurrency, len(out))
		err := inParallel(to-from, func(i int) (err error) {
			out[from+i].Keys, err = s.includedInList(ctx, v, records[from+i], in.Format)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := from; i < to; i++ {
			if !fits(out[i]) {
				return out[:i], nil
			}
		}
	}
	return out, nil
}

func (s *Service) includedInList(ctx context.Context, v view, c consumerRecord, f Format) ([]Key, error) {
	if c.KeyCount == 0 {
		return []Key{}, nil
	}
	v.consumer = c
	var rows []keyRecord
	if err := s.newestQuery(&rows, store.Page{Limit: maxIncludedKeys})(ctx, v.generation, c.Name); err != nil {
		return nil, err
	}
	return s.includedKeys(ctx, v, rows, f)
}

// listAll reads the page, the total number and the bucket concurrently. Without a prefix, its cost does not depend on
// the number of consumers. If the page has After instead of Offset, the cost does not depend on the number of earlier
// pages either. A query reads up to 1 MB at a time, so it may read consumers beyond the end of the page. Consumers with
// a prefix are counted individually, because only the total of the whole bucket is stored.
func (s *Service) listAll(
	ctx context.Context, at BucketLocator, prefix string, page store.Page, in Include,
) (v view, out consumerPage, err error) {
	v, err = s.load(ctx, target{
		ConsumerLocator: ConsumerLocator{BucketLocator: at},
		query: func(ctx context.Context, g generation, _ string) error {
			out = consumerPage{}
			query := store.Query{PK: consumerPartition(g), Prefix: consumerKey(g, prefix).SK}
			total := 0
			err := concurrently(
				func() error {
					q := query
					q.After, q.Offset, q.Limit = consumerKey(g, page.After).SK, page.Offset, page.Limit+1
					fits := in.page()
					return store.Visit(ctx, s.table, q, func(c consumerRecord) bool {
						return out.add(c, page.Limit, func() bool { return fits(c.toConsumer(in)) })
					})
				},
				func() (err error) {
					if prefix != "" {
						total, err = s.table.Count(ctx, query)
						return err
					}
					rows, err := store.Collect[countRow](ctx, s.table, store.Query{PK: consumerCountPartition(g)})
					for _, r := range rows {
						total += r.Consumers
					}
					return err
				},
			)
			out.total = total
			return err
		},
	})
	return v, out, err
}

// listFiltered reads the index rows of the required properties and then the consumers of the page. It omits a consumer
// that has lost a property in between.
func (s *Service) listFiltered(
	ctx context.Context, at BucketLocator, required []property, prefix string, page store.Page, in Include,
) (v view, out consumerPage, err error) {
	var names []string
	v, err = s.load(ctx, target{
		ConsumerLocator: ConsumerLocator{BucketLocator: at},
		query: func(ctx context.Context, g generation, _ string) error {
			found := make([][]string, len(required))
			err := inParallel(len(required), func(i int) error {
				rows, err := s.table.Keys(ctx, store.Query{
					PK:     consumerIndexPartition(g, required[i]),
					Prefix: consumerKey(g, prefix).SK,
				})
				for _, k := range rows {
					found[i] = append(found[i], k.SK)
				}
				return err
			})
			names = intersection(found)
			return err
		},
	})
	if err != nil {
		return v, out, err
	}
	out.total = len(names)
	if page.After != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name <= page.After })
	}
	names = names[min(page.Offset, len(names)):]
	if len(names) > page.Limit {
		names = names[:page.Limit]
		out.next = names[page.Limit-1] // even if this consumer was deleted meanwhile
	}
	fits := in.page()
	// Read store.MaxKeys consumers, then two times as many, and so on: fits may end the page early. Most pages need
	// only one read.
	for batches := 1; len(names) > 0; batches *= 2 {
		found, err := s.loadConsumers(ctx, v.generation, names[:min(batches*store.MaxKeys, len(names))])
		if err != nil {
			return v, out, err
		}
		names = names[len(found):]
		for _, c := range found {
			properties := c.properties()
			switch {
			case slices.ContainsFunc(required, func(p property) bool { return !properties[p] }):
			case !out.add(c, page.Limit, func() bool { return fits(c.toConsumer(in)) }):
				return v, out, nil
			}
		}
	}
	return v, out, nil
}

// loadConsumers reads the consumers with these names, in the same order. A missing consumer is a zero record.
func (s *Service) loadConsumers(ctx context.Context, g generation, names []string) ([]consumerRecord, error) {
	all := make([]consumerRecord, len(names))
	err := inParallel((len(names)+store.MaxKeys-1)/store.MaxKeys, func(i int) error {
		from := i * store.MaxKeys
		to := min(from+store.MaxKeys, len(names))
		gets := make([]*store.ReadRequest, 0, to-from)
		for i := from; i < to; i++ {
			gets = append(gets, store.Get(consumerKey(g, names[i]), &all[i]))
		}
		return s.table.Load(ctx, gets...)
	})
	return all, err
}

// intersection returns the names that are in all lists. The lists must be sorted.
func intersection(lists [][]string) []string {
	out := lists[0]
	for _, other := range lists[1:] {
		out = slices.DeleteFunc(out, func(name string) bool {
			_, exists := slices.BinarySearch(other, name)
			return !exists
		})
	}
	return out
}

// maxConcurrency is the maximum number of concurrent reads of one request.
const maxConcurrency = 8

// inParallel calls fn with 0 to n-1, at most maxConcurrency calls at a time. After an error, it begins no further calls
// and returns the error.
func inParallel(n int, fn func(i int) error) error {
	for from := 0; from < n; from += maxConcurrency {
		calls := make([]func() error, 0, maxConcurrency)
		for i := from; i < min(from+maxConcurrency, n); i++ {
			calls = append(calls, func() error { return fn(i) })
		}
		if err := concurrently(calls...); err != nil {
			return err
		}
	}
	return nil
}
