package keys

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// newest is a target's query for a page of the consumer's rows of keys, the
// newest first; the zero Page is all of them.
func (s *Service) newest(rows *[]keyRecord, page store.Page) func(context.Context, generation, string) error {
	return func(ctx context.Context, g generation, consumer string) (err error) {
		*rows, err = store.Collect[keyRecord](ctx, s.table, store.Query{
			PK: consumerKeyPartition(g, consumer), Descending: true, After: page.After, Offset: page.Offset, Limit: page.Limit,
			Unchecked: keysUnchecked,
		})
		return err
	}
}

// visibleKeys gives the consumer's visible keys, the newest first. rows are the
// partition's first ones; when some may be hidden, all are read.
func (s *Service) visibleKeys(ctx context.Context, v view, rows []keyRecord) ([]keyRecord, error) {
	if v.bucket.Changes.Hides(v.consumer.Name) {
		if err := s.newest(&rows, store.Page{})(ctx, v.g, v.consumer.Name); err != nil {
			return nil, err
		}
	}
	return v.visible(rows)
}

// includedKeys gives the newest keys of a consumer in a format.
func (s *Service) includedKeys(ctx context.Context, v view, rows []keyRecord, f Format) ([]Key, error) {
	rows, err := s.visibleKeys(ctx, v, rows)
	if err != nil {
		return nil, err
	}
	return s.showAll(ctx, rows[:min(len(rows), maxIncludedKeys)], f)
}

func (s *Service) showAll(ctx context.Context, rows []keyRecord, f Format) ([]Key, error) {
	out := make([]Key, len(rows))
	for i, k := range rows {
		var err error
		if out[i], err = s.show(ctx, k, f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ListKeys gives a part of a consumer's keys, the newest first, and how many
// there are in all. A key's position is its id; next is that of the part's last
// key, "" where none is behind it.
func (s *Service) ListKeys(ctx context.Context, at ConsumerAt, page store.Page, f Format) (out []Key, next string, total int, err error) {
	err = s.table.Again(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		onePastIt := page
		onePastIt.Limit++
		v, err := s.load(ctx, target{ConsumerAt: at, query: s.newest(&rows, onePastIt)})
		if err != nil {
			return err
		}
		next, total = "", v.consumer.KeyCount
		if rows, err = s.visibleKeys(ctx, v, rows); err != nil {
			return err
		}
		if v.bucket.Changes.Hides(v.consumer.Name) { // all rows were read then: the page is found here
			if page.After != "" {
				rows = slices.DeleteFunc(rows, func(k keyRecord) bool { return k.ID >= page.After })
			}
			rows = rows[min(page.Offset, len(rows)):]
		}
		if len(rows) > page.Limit {
			rows = rows[:page.Limit]
			next = rows[page.Limit-1].ID
		}
		out, err = s.showAll(ctx, rows, f)
		return err
	})
	return out, next, total, err
}

// Filter selects consumers: those that match all of it.
type Filter struct {
	// Tags that the consumer carries.
	Tags map[string]string
	// ManagerEmail is the address of one of its managers or invites, in any
	// case; "" for no such filter.
	ManagerEmail string
	// NamePrefix is what its name begins with.
	NamePrefix string
}

func (f Filter) properties() []property {
	out := make(map[property]bool)
	for key, value := range f.Tags {
		out[tagged(key, value)] = true
	}
	if f.ManagerEmail != "" {
		out[managed(f.ManagerEmail)] = true
	}
	return ordered(out)
}

// consumerPage is a part of a bucket's consumers. A consumer's position is its
// name.
type consumerPage struct {
	records []consumerRecord
	// next is the position of the page's last consumer, "" where none is behind it.
	next  string
	total int
}

// take adds the next record of the page's run. It answers false, and the page ends
// before the record, where there is no room for it.
func (p *consumerPage) take(c consumerRecord, limit int, fits func() bool) bool {
	if n := len(p.records); n == limit || !fits() {
		p.next = p.records[n-1].Name
		return false
	}
	p.records = append(p.records, c)
	return true
}

// ListConsumers gives a part of the bucket's consumers in the order of names,
// and how many there are in all. next is the position of the part's last one, ""
// where none is behind it.
func (s *Service) ListConsumers(ctx context.Context, at BucketAt, f Filter, page store.Page, in Include) (out []Consumer, next string, total int, err error) {
	err = s.table.Again(ctx, func(ctx context.Context) error {
		var found consumerPage
		var v view
		var err error
		if wanted := f.properties(); len(wanted) > 0 {
			v, found, err = s.listFiltered(ctx, at, wanted, f.NamePrefix, page, in)
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
			out[i] = c.consumer(in)
		}
		if !in.Keys {
			return nil
		}
		out, err = s.withKeys(ctx, v, records, out, in)
		if n := len(out); n < len(records) {
			next = records[n-1].Name
		}
		return err
	})
	return out, next, total, err
}

// page begins a page of consumers (Include.Fits).
func (in Include) page() (fits func(Consumer) bool) {
	if in.Fits == nil {
		return func(Consumer) bool { return true }
	}
	return in.Fits()
}

// withKeys gives the consumers with their keys, up to where their page ends:
// 1,000 with 100 keys each would be many times what an answer may have.
func (s *Service) withKeys(ctx context.Context, v view, records []consumerRecord, out []Consumer, in Include) ([]Consumer, error) {
	fits := in.page()
	for from := 0; from < len(out); from += parallel {
		to := min(from+parallel, len(out))
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
	if err := s.newest(&rows, store.Page{Limit: maxIncludedKeys})(ctx, v.g, c.Name); err != nil {
		return nil, err
	}
	return s.includedKeys(ctx, v, rows, f)
}

// listAll reads the page, the count and the bucket concurrently: its cost depends
// neither on how many consumers there are nor, behind a position, on where the page
// is, nor on those that the page has no room for but what a query reads at a time,
// 1 MB. Those of a prefix are counted one by one: no other number is kept than the
// bucket's, which every new consumer writes.
func (s *Service) listAll(ctx context.Context, at BucketAt, prefix string, page store.Page, in Include) (v view, out consumerPage, err error) {
	v, err = s.load(ctx, target{ConsumerAt: ConsumerAt{BucketAt: at}, query: func(ctx context.Context, g generation, _ string) error {
		out = consumerPage{}
		run := store.Query{PK: consumerPartition(g), Prefix: consumerKey(g, prefix).SK}
		total := 0
		err := concurrently(
			func() error {
				q := run
				q.After, q.Offset, q.Limit = consumerKey(g, page.After).SK, page.Offset, page.Limit+1
				fits := in.page()
				return store.Visit(ctx, s.table, q, func(c consumerRecord) bool {
					return out.take(c, page.Limit, func() bool { return fits(c.consumer(in)) })
				})
			},
			func() (err error) {
				if prefix != "" {
					total, err = s.table.Count(ctx, run)
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
	}})
	return v, out, err
}

// listFiltered reads the index rows of every property, and then the records of
// the page. A record that has changed in between is left out.
func (s *Service) listFiltered(ctx context.Context, at BucketAt, wanted []property, prefix string, page store.Page, in Include) (v view, out consumerPage, err error) {
	var names []string
	v, err = s.load(ctx, target{ConsumerAt: ConsumerAt{BucketAt: at}, query: func(ctx context.Context, g generation, _ string) error {
		found := make([][]string, len(wanted))
		err := inParallel(len(wanted), func(i int) error {
			rows, err := s.table.Keys(ctx, store.Query{PK: consumerIndexPartition(g, wanted[i]), Prefix: consumerKey(g, prefix).SK})
			for _, k := range rows {
				found[i] = append(found[i], k.SK)
			}
			return err
		})
		names = intersection(found)
		return err
	}})
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
		out.next = names[page.Limit-1] // whether its record is there or not
	}
	fits := in.page()
	// Each time as much is read as all times before: most pages are one read, and at
	// most as much is read in vain as the page holds.
	for portions := 1; len(names) > 0; portions *= 2 {
		found, err := s.consumersNamed(ctx, v.g, names[:min(portions*store.MaxKeys, len(names))])
		if err != nil {
			return v, out, err
		}
		names = names[len(found):]
		for _, c := range found {
			have := c.properties()
			switch {
			case slices.ContainsFunc(wanted, func(p property) bool { return !have[p] }):
			case !out.take(c, page.Limit, func() bool { return fits(c.consumer(in)) }):
				return v, out, nil
			}
		}
	}
	return v, out, nil
}

// consumersNamed reads consumers; one that is not there is a zero record.
func (s *Service) consumersNamed(ctx context.Context, g generation, names []string) ([]consumerRecord, error) {
	all := make([]consumerRecord, len(names))
	err := inParallel((len(names)+store.MaxKeys-1)/store.MaxKeys, func(i int) error {
		from := i * store.MaxKeys
		to := min(from+store.MaxKeys, len(names))
		wanted := make([]*store.Wanted, 0, to-from)
		for i := from; i < to; i++ {
			wanted = append(wanted, store.Want(consumerKey(g, names[i]), &all[i]))
		}
		return s.table.Load(ctx, wanted...)
	})
	return all, err
}

// intersection gives what all of the sorted lists hold.
func intersection(lists [][]string) []string {
	out := lists[0]
	for _, other := range lists[1:] {
		out = slices.DeleteFunc(out, func(name string) bool {
			_, there := slices.BinarySearch(other, name)
			return !there
		})
	}
	return out
}

// parallel is how many reads of one request run at the same time.
const parallel = 8

// inParallel calls do for 0 to n-1, parallel of them at a time, and gives the
// first error.
func inParallel(n int, do func(i int) error) error {
	for from := 0; from < n; from += parallel {
		calls := make([]func() error, 0, parallel)
		for i := from; i < min(from+parallel, n); i++ {
			calls = append(calls, func() error { return do(i) })
		}
		if err := concurrently(calls...); err != nil {
			return err
		}
	}
	return nil
}
