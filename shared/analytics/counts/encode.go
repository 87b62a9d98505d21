package counts

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"

	"github.com/gatewright/gatewright/shared/analytics"
)

// What rows hold is one attribute: a byte that says how the rest is written, and JSON, compressed where that saves anything. As attributes of their
// own, its names would be most of it, and a table bills them at each write.
const (
	plain      = 1
	compressed = 2
)

// smallest is from how many bytes on a row is compressed: a table bills by the kilobyte, and a compressor takes half a megabyte of memory.
const smallest = 1024

// maxRowBytes bounds a row. DynamoDB takes 400 KB an item and 4 MB a transaction, and a rollup may write rollupRows of these in one.
const maxRowBytes = 160 << 10

// maxUnpacked bounds what is read of a row: far more than a row of maxRowBytes can hold by what is counted.
const maxUnpacked = 64 << 20

// packedTally is a tally as rows have it.
type packedTally struct {
	// Calls are numbers by consumer and status.
	Calls map[string]map[int]int64 `json:"c,omitempty"`
	// Spent is what is spent of these numbers, in the order of consumers and statuses, without Other. None is nothing.
	Spent      []int64           `json:"p,omitempty"`
	Operations []packedOperation `json:"o,omitempty"`
}

type packedOperation struct {
	Name          string                   `json:"n,omitempty"`
	Type          string                   `json:"y,omitempty"`
	Count         int64                    `json:"k"`
	Spent         int64                    `json:"p,omitempty"`
	Failed        int64                    `json:"f,omitempty"`
	Classes       [analytics.Classes]int64 `json:"e,omitzero"`
	Complexity    int64                    `json:"x,omitempty"`
	ComplexityMax int64                    `json:"m,omitempty"`
	// Total and Resolver are sketches in their own encoding, without the index, which is the same for all.
	Total    []byte `json:"t"`
	Resolver []byte `json:"r"`
}

// packedCalls are calls as rows have them: texts stand in Names once.
type packedCalls struct {
	Names []string `json:"n,omitempty"`
	// Calls are the places of consumer, method and route in Names, the status, the time in milliseconds since 1970, and one more than the place of the
	// policy that refused. Rows of before have no such number, which is read as 0, for none; who knows five numbers reads no further.
	Calls [][6]int64 `json:"c,omitempty"`
}

// packedSlot is a tally of the finest interval, with its beginning in seconds since 1970.
type packedSlot struct {
	Start int64       `json:"s"`
	Tally packedTally `json:"t"`
}

// packedFresh is what a collector writes.
type packedFresh struct {
	Slots  []packedSlot `json:"s"`
	Recent packedCalls  `json:"r,omitzero"`
}

func (t *tally) pack() packedTally {
	var p packedTally
	t.each(func(by caller, n number) {
		if p.Calls == nil {
			p.Calls = map[string]map[int]int64{}
		}
		if p.Calls[by.consumer] == nil {
			p.Calls[by.consumer] = map[int]int64{}
		}
		p.Calls[by.consumer][by.status] = n.count
	})
	p.Spent = t.spent()
	for o, m := range t.operations {
		p.Operations = append(p.Operations, packOperation(o, m))
	}
	for kind, m := range t.restOperations {
		p.Operations = append(p.Operations, packOperation(operation{Other, kind}, m))
	}
	slices.SortFunc(p.Operations, func(a, b packedOperation) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Type, b.Type))
	})
	return p
}

// spent lists what is spent of the callers' numbers, nil for nothing.
func (t *tally) spent() []int64 {
	some := false
	for _, n := range t.calls {
		some = some || n.spent > 0
	}
	if !some {
		return nil
	}
	var all []int64
	for _, by := range t.inOrder() {
		all = append(all, t.calls[by].spent)
	}
	return all
}

func packOperation(o operation, m *measured) packedOperation {
	return packedOperation{
		Name: o.name, Type: o.kind, Count: m.count, Spent: m.spent, Failed: m.failed, Classes: m.classes,
		Complexity: m.complexity, ComplexityMax: m.complexityMax, Total: encoded(m.total), Resolver: encoded(m.resolver),
	}
}

func (p packedTally) unpack() (*tally, error) {
	t := newTally()
	for consumer, statuses := range p.Calls {
		for status, n := range statuses {
			t.call(caller{consumer, status}, number{count: n})
		}
	}
	if len(p.Spent) == len(t.calls) { // a release that knows nothing of it leaves it out
		for i, by := range t.inOrder() {
			t.calls[by] = t.calls[by].less(p.Spent[i])
		}
	}
	for _, o := range p.Operations {
		m, _ := t.at(operation{o.Name, o.Type})
		m.number = number{o.Count, o.Spent}
		m.failed, m.classes, m.complexity, m.complexityMax = o.Failed, o.Classes, o.Complexity, o.ComplexityMax
		if err := errors.Join(m.total.DecodeAndMergeWith(o.Total), m.resolver.DecodeAndMergeWith(o.Resolver)); err != nil {
			return nil, fmt.Errorf("decode the latencies of an operation: %w", err)
		}
	}
	return t, nil
}

func encoded(s *ddsketch.DDSketch) []byte {
	var b []byte
	s.Encode(&b, true)
	return b
}

func packCalls(calls []RecentCall) packedCalls {
	var p packedCalls
	places := map[string]int64{}
	place := func(text string) int64 {
		n, known := places[text]
		if !known {
			n = int64(len(p.Names))
			places[text] = n
			p.Names = append(p.Names, text)
		}
		return n
	}
	for _, c := range calls {
		packed := [6]int64{place(c.Consumer), place(c.Method), place(c.Route), int64(c.Status), c.At.UnixMilli()}
		if c.Policy != "" {
			packed[5] = 1 + place(c.Policy)
		}
		p.Calls = append(p.Calls, packed)
	}
	return p
}

func (p packedCalls) unpack() ([]RecentCall, error) {
	var out []RecentCall
	for _, c := range p.Calls {
		for _, place := range [...]int64{c[0], c[1], c[2], max(c[5]-1, 0)} {
			if place < 0 || place >= int64(len(p.Names)) {
				return nil, errors.New("decode a call: it names what is not there")
			}
		}
		call := RecentCall{Consumer: p.Names[c[0]], Method: p.Names[c[1]], Route: p.Names[c[2]], Status: int(c[3]), At: time.UnixMilli(c[4]).UTC()}
		if c[5] > 0 {
			call.Policy = p.Names[c[5]-1]
		}
		out = append(out, call)
	}
	return out, nil
}

// packed encodes what a row holds.
func packed(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode counts: %w", err)
	}
	if len(text) < smallest {
		return append([]byte{plain}, text...), nil
	}
	out := bytes.NewBuffer([]byte{compressed})
	z, err := flate.NewWriter(out, flate.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compress counts: %w", err)
	}
	if _, err := z.Write(text); err != nil {
		return nil, fmt.Errorf("compress counts: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress counts: %w", err)
	}
	return out.Bytes(), nil
}

// unpacked decodes what a row holds.
func unpacked(data []byte, into any) error {
	if len(data) == 0 || data[0] != plain && data[0] != compressed {
		return errors.New("decode counts: they are written as no release up to this one does")
	}
	var text io.Reader = bytes.NewReader(data[1:])
	if data[0] == compressed {
		text = io.LimitReader(flate.NewReader(text), maxUnpacked)
	}
	if err := json.NewDecoder(text).Decode(into); err != nil {
		return fmt.Errorf("decode counts: %w", err)
	}
	return nil
}

// packTally encodes a tally for a row of its own, with fewer names where it would be too large.
func packTally(t *tally) ([]byte, error) {
	t.trim()
	for {
		data, err := packed(t.pack())
		if err != nil || len(data) <= maxRowBytes || !shrink(halvings(t)) {
			return data, err
		}
	}
}

// halving is a part of a row that can be made smaller.
type halving struct {
	// part is what is encoded of it.
	part any
	// halve reports whether there was anything to do.
	halve func() bool
}

// halvings are the parts of tallies: operations and callers, so that many of the one take no room from the other.
func halvings(tallies ...*tally) []halving {
	var operations, callers []packedTally
	for _, t := range tallies {
		p := t.pack()
		operations = append(operations, packedTally{Operations: p.Operations})
		callers = append(callers, packedTally{Calls: p.Calls, Spent: p.Spent})
	}
	return []halving{
		{operations, func() bool { return halveOperations(tallies) }},
		{callers, func() bool { return halveCallers(tallies) }},
	}
}

// shrink halves the part that takes the most room, or the next one where that has nothing more to leave out. It reports whether there was anything
// to do: what is left in the end has room in any row.
func shrink(parts []halving) bool {
	size, order := make([]int, len(parts)), make([]int, len(parts))
	for i, h := range parts {
		data, _ := packed(h.part) // all of it was encoded before
		size[i], order[i] = len(data), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	return slices.ContainsFunc(order, func(i int) bool { return parts[i].halve() })
}

// packHour encodes the newest calls for a row of their own, fewer of them where it would be too large.
func packHour(calls []RecentCall) ([]byte, error) {
	calls = newest(calls, maxRecent)
	for {
		data, err := packed(packCalls(calls))
		if err != nil || len(data) <= maxRowBytes || len(calls) == 0 {
			return data, err
		}
		calls = calls[:len(calls)/2]
	}
}

func unpackTally(data []byte) (*tally, error) {
	var p packedTally
	if err := unpacked(data, &p); err != nil {
		return nil, err
	}
	return p.unpack()
}

// fresh is what a collector has counted of a deployment since it wrote the last time.
type fresh struct {
	slots  []slot
	recent latest
}

// slot is a tally of the finest interval.
type slot struct {
	start int64 // in seconds since 1970
	*tally
}

// pack encodes what was counted for one row. Where that is too large, names are left out that are seldom, or calls that are no more the newest.
func (f *fresh) pack() ([]byte, error) {
	calls := newest(f.recent.calls, maxRecent)
	var tallies []*tally
	for _, s := range f.slots {
		s.trim()
		tallies = append(tallies, s.tally)
	}
	for {
		p := packedFresh{Recent: packCalls(calls)}
		for _, s := range f.slots {
			p.Slots = append(p.Slots, packedSlot{s.start, s.pack()})
		}
		data, err := packed(p)
		if err != nil || len(data) <= maxRowBytes {
			return data, err
		}
		halve := func() bool {
			some := len(calls) > 0
			calls = calls[:len(calls)/2]
			return some
		}
		if !shrink(append(halvings(tallies...), halving{p.Recent, halve})) {
			return data, nil
		}
	}
}

func unpackFresh(data []byte) (*fresh, error) {
	var p packedFresh
	if err := unpacked(data, &p); err != nil {
		return nil, err
	}
	f := &fresh{}
	var err error
	for _, s := range p.Slots {
		t, err := s.Tally.unpack()
		if err != nil {
			return nil, err
		}
		f.slots = append(f.slots, slot{s.Start, t})
	}
	f.recent.calls, err = p.Recent.unpack()
	return f, err
}
