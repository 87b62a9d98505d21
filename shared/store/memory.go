package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Memory is a backend in memory, for tests and simulators: transactions,
// tokens, conditions, the due index, the stream and the capacity that DynamoDB
// would bill, without a process to start.
type Memory struct {
	mu     sync.Mutex
	items  map[Key]Item
	tokens map[string]bool
	stream func(StreamRecord)
}

// StreamRecord is one change of an item, as the table's stream tells it.
type StreamRecord struct {
	Key Key
	// Old and New are the item before and after, nil where it was not there.
	Old, New Item
}

var _ Backend = (*Memory)(nil)

// NewMemory makes an empty backend.
func NewMemory() *Memory {
	return &Memory{items: map[Key]Item{}, tokens: map[string]bool{}}
}

// OnChange has f called after each commit with every item it changed, in the
// order of the commits. f must not call the backend.
func (m *Memory) OnChange(f func(StreamRecord)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stream = f
}

// Items gives a copy of the whole content, for a test to compare.
func (m *Memory) Items() map[Key]Item {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.items)
}

// Read implements Backend.
func (m *Memory) Read(ctx context.Context, keys []Key) ([]Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Item
	var units float64
	for _, k := range keys {
		item, ok := m.items[k]
		units += math.Max(1, readUnits(itemSize(item)))
		if ok {
			out = append(out, clone(item))
		}
	}
	charge(ctx, reading, units, 0)
	return out, nil
}

// pageBytes is how much one page of a query reads in DynamoDB.
const pageBytes = 1 << 20

// Query implements Backend.
func (m *Memory) Query(ctx context.Context, q Query) (page []Item, next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.run(q)
	_, sk := q.Index.KeyAttributes()
	if q.Offset > 0 {
		skipped := 0
		for i := range min(q.Offset, len(found)) {
			skipped += itemSize(found[i])
		}
		charge(ctx, querying, m.queryUnits(q, skipped), 0)
		if q.Offset >= len(found) {
			return nil, "", nil
		}
		found = found[q.Offset:]
	}
	size := 0
	for i, item := range found {
		if size += itemSize(item); i > 0 && size > pageBytes || q.Limit > 0 && i == q.Limit {
			next = textOf(found[i-1][sk])
			found = found[:i]
			size -= itemSize(item)
			break
		}
	}
	charge(ctx, querying, m.queryUnits(q, size), 0)
	for _, item := range found {
		page = append(page, clone(item))
	}
	return page, next, nil
}

// run gives all items of q, in order.
func (m *Memory) run(q Query) []Item {
	pk, sk := q.Index.KeyAttributes()
	var found []Item
	for _, item := range m.items {
		if textOf(item[pk]) != q.PK || item[pk] == nil || item[sk] == nil {
			continue
		}
		key := textOf(item[sk])
		if !strings.HasPrefix(key, q.Prefix) || q.UpTo != "" && key > q.UpTo {
			continue
		}
		if q.After != "" && (!q.Descending && key <= q.After || q.Descending && key >= q.After) {
			continue
		}
		found = append(found, item)
	}
	slices.SortFunc(found, func(a, b Item) int {
		if q.Descending {
			a, b = b, a
		}
		return strings.Compare(textOf(a[sk]), textOf(b[sk]))
	})
	return found
}

func (m *Memory) queryUnits(q Query, size int) float64 {
	units := math.Max(1, readUnits(size))
	if q.Index != "" {
		units /= 2 // an index is read with eventual consistency
	}
	return units
}

// Transact implements Backend.
func (m *Memory) Transact(ctx context.Context, token string, writes []Write) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tokens[token] {
		return nil
	}
	var failed []int
	var units float64
	for i, w := range writes {
		ok, err := holds(w.Condition, m.items[w.Key])
		if err != nil {
			return err
		}
		if !ok {
			failed = append(failed, i)
		}
	}
	if failed != nil {
		charge(ctx, committing, 0, float64(2*len(writes)))
		return &ConditionError{Failed: failed}
	}
	changed := make([]StreamRecord, 0, len(writes))
	for _, w := range writes {
		record := StreamRecord{Key: w.Key, Old: m.items[w.Key]}
		after, err := applied(w, m.items[w.Key])
		if err != nil {
			return err
		}
		record.New = after
		size := max(itemSize(record.Old), itemSize(after))
		if size > maxItemBytes {
			return fmt.Errorf("store: item %s has %d bytes, at most %d are possible", w.Key.SK, size, maxItemBytes)
		}
		units += 2 * math.Max(1, math.Ceil(float64(size)/1024))
		changed = append(changed, record)
	}
	for _, r := range changed {
		if r.New == nil {
			delete(m.items, r.Key)
		} else {
			m.items[r.Key] = r.New
		}
	}
	m.tokens[token] = true
	charge(ctx, committing, 0, units)
	if m.stream != nil {
		for i, r := range changed {
			if writes[i].Kind != CheckKind {
				m.stream(r)
			}
		}
	}
	return nil
}

// maxItemBytes is a limit of DynamoDB.
const maxItemBytes = 400 << 10

// applied gives the item after w.
func applied(w Write, before Item) (Item, error) {
	switch w.Kind {
	case PutKind:
		return clone(w.Item), nil
	case DeleteKind:
		return nil, nil
	case CheckKind:
		return before, nil
	case UpdateKind:
		after := clone(before)
		if after == nil {
			after = Item{
				pkAttribute: &types.AttributeValueMemberS{Value: w.Key.PK},
				skAttribute: &types.AttributeValueMemberS{Value: w.Key.SK},
			}
		}
		for _, c := range w.Changes {
			if err := change(after, c); err != nil {
				return nil, err
			}
		}
		return after, nil
	}
	return nil, fmt.Errorf("store: unknown write %d", w.Kind)
}

func change(item Item, c Change) error {
	last := len(c.Path) - 1
	for _, name := range c.Path[:last] {
		m, ok := item[name].(*types.AttributeValueMemberM)
		if !ok {
			return fmt.Errorf("store: no map at %s of the path %v", name, c.Path)
		}
		item = m.Value
	}
	name := c.Path[last]
	switch c.Kind {
	case SetKind:
		item[name] = c.Value
	case RemoveKind:
		delete(item, name)
	case AddKind:
		sum, err := number(c.Value)
		if err != nil {
			return err
		}
		if old, ok := item[name]; ok {
			n, err := number(old)
			if err != nil {
				return err
			}
			sum.Add(sum, n)
		}
		item[name] = &types.AttributeValueMemberN{Value: sum.RatString()}
	}
	return nil
}

func holds(c Condition, item Item) (bool, error) {
	switch c := c.(type) {
	case nil:
		return true, nil
	case existence:
		if c.path == nil {
			return (item != nil) == c.want, nil
		}
		return (lookup(item, c.path) != nil) == c.want, nil
	case comparison:
		if c.err != nil {
			return false, c.err
		}
		return compared(lookup(item, c.path), c)
	case combination:
		for _, part := range c.parts {
			ok, err := holds(part, item)
			if err != nil || ok == c.any {
				return ok, err
			}
		}
		return !c.any, nil
	}
	return false, fmt.Errorf("store: unknown condition %T", c)
}

func compared(have types.AttributeValue, c comparison) (bool, error) {
	if have == nil {
		return c.op == "<>", nil
	}
	var order int
	switch want := c.value.(type) {
	case *types.AttributeValueMemberN:
		a, errA := number(have)
		b, errB := number(want)
		if errA != nil || errB != nil {
			return c.op == "<>", errors.Join(errB)
		}
		order = a.Cmp(b)
	case *types.AttributeValueMemberS:
		s, ok := have.(*types.AttributeValueMemberS)
		if !ok {
			return c.op == "<>", nil
		}
		order = strings.Compare(s.Value, want.Value)
	case *types.AttributeValueMemberBOOL:
		b, ok := have.(*types.AttributeValueMemberBOOL)
		if !ok || b.Value != want.Value {
			order = 1
		}
	case *types.AttributeValueMemberB:
		b, ok := have.(*types.AttributeValueMemberB)
		if !ok {
			return c.op == "<>", nil
		}
		order = bytes.Compare(b.Value, want.Value)
	default:
		return false, fmt.Errorf("store: cannot compare with a %T", want)
	}
	switch c.op {
	case "=":
		return order == 0, nil
	case "<>":
		return order != 0, nil
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	case ">=":
		return order >= 0, nil
	}
	return false, fmt.Errorf("store: unknown operator %q", c.op)
}

func lookup(item Item, path Path) types.AttributeValue {
	for i, name := range path {
		v, ok := item[name]
		if !ok || i == len(path)-1 {
			return v
		}
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok {
			return nil
		}
		item = m.Value
	}
	return nil
}

func number(v types.AttributeValue) (*big.Rat, error) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return nil, fmt.Errorf("store: %T is no number", v)
	}
	r, ok := new(big.Rat).SetString(n.Value)
	if !ok {
		return nil, fmt.Errorf("store: %q is no number", n.Value)
	}
	return r, nil
}

func textOf(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// clone copies an item so deep that no change to the copy reaches it.
func clone(item Item) Item {
	if item == nil {
		return nil
	}
	out := make(Item, len(item))
	for name, v := range item {
		if m, ok := v.(*types.AttributeValueMemberM); ok {
			v = &types.AttributeValueMemberM{Value: clone(m.Value)}
			if m.Value == nil {
				v = &types.AttributeValueMemberM{Value: Item{}}
			}
		}
		out[name] = v
	}
	return out
}

// readUnits is what a consistent read of size bytes costs.
func readUnits(size int) float64 { return math.Ceil(float64(size) / 4096) }

// itemSize is the size that DynamoDB bills: names and values in UTF-8.
func itemSize(item Item) int {
	n := 0
	for name, v := range item {
		n += len(name) + valueSize(v)
	}
	return n
}

func valueSize(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		digits := len(strings.Trim(v.Value, "-.0"))
		return (digits+1)/2 + 1
	case *types.AttributeValueMemberM:
		n := 3
		for name, e := range v.Value {
			n += 1 + len(name) + valueSize(e)
		}
		return n
	case *types.AttributeValueMemberL:
		n := 3
		for _, e := range v.Value {
			n += 1 + valueSize(e)
		}
		return n
	case *types.AttributeValueMemberSS:
		n := 0
		for _, e := range v.Value {
			n += len(e)
		}
		return n
	}
	return 1 // booleans and null
}
