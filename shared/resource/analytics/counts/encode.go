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

	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// The data of a row is one attribute: a byte for the format, and then JSON, which is compressed from
// minCompressedBytes on. With an attribute for each field, most of a row would be attribute names, and a table bills
// them at each write.
const (
	formatPlain      = 1
	formatCompressed = 2
)

// minCompressedBytes is the minimum size of the JSON of a row that is compressed. A table bills by the kilobyte, and
// a compressor takes half a megabyte of memory.
const minCompressedBytes = 1024

// maxRowBytes is the maximum size of a row. DynamoDB accepts 400 KB per item and 4 MB per transaction. A rollup may
// write maxRollupRows rows of this size in one transaction.
const maxRowBytes = 160 << 10

// maxUnpackedBytes is the maximum decompressed size of a row's data. It is far more than any row needs that a
// collector or a rollup writes.
const maxUnpackedBytes = 64 << 20

// packedTally is the stored form of a tally.
type packedTally struct {
	// Calls are the numbers of calls by consumer and status.
	Calls map[string]map[int]int64 `json:"c,omitempty"`
	// Subtracted has the subtracted part of each of these numbers (see counter), sorted by consumer and status. Calls
	// under Other have no subtracted part. If Subtracted is missing, all parts are 0.
	Subtracted []int64           `json:"p,omitempty"`
	Operations []packedOperation `json:"o,omitempty"`
}

type packedOperation struct {
	Name          string                   `json:"n,omitempty"`
	Type          string                   `json:"y,omitempty"`
	Count         int64                    `json:"k"`
	Subtracted    int64                    `json:"p,omitempty"`
	Failed        int64                    `json:"f,omitempty"`
	Classes       [analytics.Classes]int64 `json:"e,omitzero"`
	Complexity    int64                    `json:"x,omitempty"`
	ComplexityMax int64                    `json:"m,omitempty"`
	// Total and Resolver are sketches of the latencies, in the encoding of the sketch library. They omit the index
	// mapping, which is the same for all sketches.
	Total    []byte `json:"t"`
	Resolver []byte `json:"r"`
}

// packedCalls is the stored form of calls. Each text is in Names once.
type packedCalls struct {
	Names []string `json:"n,omitempty"`
	// Calls contains six numbers for each call: the positions of consumer, method and route in Names; the status; the
	// time in milliseconds since 1970; and, if a policy responded instead of the handler, 1 plus the position of the
	// policy in Names, otherwise 0. Older rows have no sixth number, which is then read as 0. Older releases read only
	// the first five numbers.
	Calls [][6]int64 `json:"c,omitempty"`
}

// packedInterval is the stored form of an intervalTally. Start is its beginning in seconds since 1970.
type packedInterval struct {
	Start int64       `json:"s"`
	Tally packedTally `json:"t"`
}

// packedPending is the stored form of the counts that a collector writes.
type packedPending struct {
	Intervals []packedInterval `json:"s"`
	Recent    packedCalls      `json:"r,omitzero"`
}

func (t *tally) pack() packedTally {
	var p packedTally
	t.each(func(c caller, n counter) {
		if p.Calls == nil {
			p.Calls = map[string]map[int]int64{}
		}
		if p.Calls[c.consumer] == nil {
			p.Calls[c.consumer] = map[int]int64{}
		}
		p.Calls[c.consumer][c.status] = n.count
	})
	p.Subtracted = t.subtracted()
	for o, m := range t.operations {
		p.Operations = append(p.Operations, packOperation(o, m))
	}
	for kind, m := range t.otherOperations {
		p.Operations = append(p.Operations, packOperation(operation{Other, kind}, m))
	}
	slices.SortFunc(p.Operations, func(a, b packedOperation) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Type, b.Type))
	})
	return p
}

// subtracted returns the subtracted parts of the callers' counts, sorted by consumer and status, or nil if all are 0.
func (t *tally) subtracted() []int64 {
	anySubtracted := false
	for _, n := range t.calls {
		anySubtracted = anySubtracted || n.subtracted > 0
	}
	if !anySubtracted {
		return nil
	}
	var all []int64
	for _, c := range t.sortedCallers() {
		all = append(all, t.calls[c].subtracted)
	}
	return all
}

func packOperation(o operation, m *operationStats) packedOperation {
	return packedOperation{
		Name: o.name, Type: o.kind, Count: m.count, Subtracted: m.subtracted, Failed: m.failed, Classes: m.classes,
		Complexity: m.complexity, ComplexityMax: m.complexityMax, Total: encodeSketch(m.totalLatency),
		Resolver: encodeSketch(m.resolverLatency),
	}
}

func (p packedTally) unpack() (*tally, error) {
	t := newTally()
	for consumer, statuses := range p.Calls {
		for status, n := range statuses {
			t.addCalls(caller{consumer, status}, counter{count: n})
		}
	}
	if len(p.Subtracted) == len(t.calls) { // Subtracted is missing if all parts are 0, and in rows of older releases
		for i, c := range t.sortedCallers() {
			t.calls[c] = t.calls[c].subtract(p.Subtracted[i])
		}
	}
	for _, o := range p.Operations {
		m, _ := t.stats(operation{o.Name, o.Type})
		m.counter = counter{o.Count, o.Subtracted}
		m.failed, m.classes, m.complexity, m.complexityMax = o.Failed, o.Classes, o.Complexity, o.ComplexityMax
		err := errors.Join(m.totalLatency.DecodeAndMergeWith(o.Total), m.resolverLatency.DecodeAndMergeWith(o.Resolver))
		if err != nil {
			return nil, fmt.Errorf("decode the latencies of an operation: %w", err)
		}
	}
	return t, nil
}

func encodeSketch(s *ddsketch.DDSketch) []byte {
	var b []byte
	s.Encode(&b, true)
	return b
}

func packCalls(calls []RecentCall) packedCalls {
	var p packedCalls
	positions := map[string]int64{}
	position := func(text string) int64 {
		n, ok := positions[text]
		if !ok {
			n = int64(len(p.Names))
			positions[text] = n
			p.Names = append(p.Names, text)
		}
		return n
	}
	for _, c := range calls {
		packed := [6]int64{position(c.Consumer), position(c.Method), position(c.Route), int64(c.Status), c.At.UnixMilli()}
		if c.Policy != "" {
			packed[5] = 1 + position(c.Policy)
		}
		p.Calls = append(p.Calls, packed)
	}
	return p
}

func (p packedCalls) unpack() ([]RecentCall, error) {
	var out []RecentCall
	for _, c := range p.Calls {
		for _, position := range [...]int64{c[0], c[1], c[2], max(c[5]-1, 0)} {
			if position < 0 || position >= int64(len(p.Names)) {
				return nil, fmt.Errorf("decode a call: it refers to the name %d of %d names", position+1, len(p.Names))
			}
		}
		call := RecentCall{
			Consumer: p.Names[c[0]], Method: p.Names[c[1]], Route: p.Names[c[2]], Status: int(c[3]),
			At: time.UnixMilli(c[4]).UTC(),
		}
		if c[5] > 0 {
			call.Policy = p.Names[c[5]-1]
		}
		out = append(out, call)
	}
	return out, nil
}

// encodeRow encodes the data of a row.
func encodeRow(v any) ([]byte, error) {
	encoded, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode counts: %w", err)
	}
	if len(encoded) < minCompressedBytes {
		return append([]byte{formatPlain}, encoded...), nil
	}
	out := bytes.NewBuffer([]byte{formatCompressed})
	z, err := flate.NewWriter(out, flate.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compress counts: %w", err)
	}
	if _, err := z.Write(encoded); err != nil {
		return nil, fmt.Errorf("compress counts: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress counts: %w", err)
	}
	return out.Bytes(), nil
}

// decodeRow decodes the data of a row.
func decodeRow(data []byte, dest any) error {
	if len(data) == 0 || data[0] != formatPlain && data[0] != formatCompressed {
		return errors.New("decode counts: the format is unknown: the row is damaged, or a newer release has written it")
	}
	var r io.Reader = bytes.NewReader(data[1:])
	if data[0] == formatCompressed {
		r = io.LimitReader(flate.NewReader(r), maxUnpackedBytes)
	}
	if err := json.NewDecoder(r).Decode(dest); err != nil {
		return fmt.Errorf("decode counts: %w", err)
	}
	return nil
}

// packTally encodes a tally for one row. If the row would be too large, packTally folds more names into Other.
func packTally(t *tally) ([]byte, error) {
	t.trim()
	for {
		data, err := encodeRow(t.pack())
		if err != nil || len(data) <= maxRowBytes || !shrink(shrinkables(t)) {
			return data, err
		}
	}
}

// shrinkable is a part of a row that can be made smaller.
type shrinkable struct {
	// part is the data whose encoded size shrink compares.
	part any
	// halve removes half of the calls, or folds names into Other. It returns false if there was nothing to remove or
	// fold.
	halve func() bool
}

// shrinkables returns the parts of tallies. Operations and callers are separate parts,
// so that many operations displace no callers, and many callers no operations.
func shrinkables(tallies ...*tally) []shrinkable {
	var operations, callers []packedTally
	for _, t := range tallies {
		p := t.pack()
		operations = append(operations, packedTally{Operations: p.Operations})
		callers = append(callers, packedTally{Calls: p.Calls, Subtracted: p.Subtracted})
	}
	return []shrinkable{
		{operations, func() bool { return halveOperations(tallies) }},
		{callers, func() bool { return halveCallers(tallies) }},
	}
}

// shrink halves the largest part, or the next one if the largest cannot be halved. It returns false if no part can be
// halved. The remaining data then fits into a row.
func shrink(parts []shrinkable) bool {
	size, order := make([]int, len(parts)), make([]int, len(parts))
	for i, candidate := range parts {
		data, _ := encodeRow(candidate.part) // no error, because the whole row was encoded before
		size[i], order[i] = len(data), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	return slices.ContainsFunc(order, func(i int) bool { return parts[i].halve() })
}

// packHour encodes calls of one hour for one row: at most maxRecent, the newest ones. If the row would be too large, it
// drops more of the oldest calls.
func packHour(calls []RecentCall) ([]byte, error) {
	calls = newest(calls, maxRecent)
	for {
		data, err := encodeRow(packCalls(calls))
		if err != nil || len(data) <= maxRowBytes || len(calls) == 0 {
			return data, err
		}
		calls = calls[:len(calls)/2]
	}
}

func unpackTally(data []byte) (*tally, error) {
	var p packedTally
	if err := decodeRow(data, &p); err != nil {
		return nil, err
	}
	return p.unpack()
}

// pendingCounts contains the counts of a deployment since the collector's last write, or the counts of a pending row.
type pendingCounts struct {
	intervals []intervalTally
	recent    recentCalls
}

// intervalTally is a tally of one interval of the finest resolution.
type intervalTally struct {
	start int64 // in seconds since 1970
	*tally
}

// pack encodes the counts for one row. If the row would be too large, pack folds rare names into Other, or drops the
// oldest calls.
func (c *pendingCounts) pack() ([]byte, error) {
	calls := newest(c.recent.calls, maxRecent)
	var tallies []*tally
	for _, s := range c.intervals {
		s.trim()
		tallies = append(tallies, s.tally)
	}
	for {
		p := packedPending{Recent: packCalls(calls)}
		for _, s := range c.intervals {
			p.Intervals = append(p.Intervals, packedInterval{s.start, s.pack()})
		}
		data, err := encodeRow(p)
		if err != nil || len(data) <= maxRowBytes {
			return data, err
		}
		halve := func() bool {
			nonEmpty := len(calls) > 0
			calls = calls[:len(calls)/2]
			return nonEmpty
		}
		if !shrink(append(shrinkables(tallies...), shrinkable{p.Recent, halve})) {
			return data, nil
		}
	}
}

func unpackPending(data []byte) (*pendingCounts, error) {
	var p packedPending
	if err := decodeRow(data, &p); err != nil {
		return nil, err
	}
	pending := &pendingCounts{}
	var err error
	for _, s := range p.Intervals {
		t, err := s.Tally.unpack()
		if err != nil {
			return nil, err
		}
		pending.intervals = append(pending.intervals, intervalTally{s.Start, t})
	}
	pending.recent.calls, err = p.Recent.unpack()
	return pending, err
}
