package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// A request with an Idempotency-Key is a change once, however often it is made
// (contract 9; docs/decisions/0033-answers-in-the-change-s-transaction.md). Its
// answer is a part of its change's own transaction, so that there is never one
// without the other. The answer is known only after the handler has returned, so
// the handler runs under store.Hold, and the engine commits.
//
// Refusals change nothing and are not kept: the request may be mended, and
// repeated with the same key.

const (
	// idempotencyKey is the header, and what problems call it.
	idempotencyKey = "Idempotency-Key"
	// maxKeyBytes bounds an Idempotency-Key (contract 9).
	maxKeyBytes = 255
	// answerLifetime is how long an answer is kept (contract 9).
	answerLifetime = 24 * time.Hour
	// runningLifetime is how long a first try is waited for that has begun to
	// commit: longer than the platform lets a request run (29 s).
	runningLifetime = 35 * time.Second
	// answerPartBytes is how much of an answer one item holds: with what sealing
	// adds, and its key, it is within store.MaxItemBytes.
	answerPartBytes = 300 << 10
)

// answerRecord is a request with an Idempotency-Key, and the first part of its
// answer once there is one. Its ttl is the end of its meaning: another request may
// have the key from then on.
type answerRecord struct {
	store.Rest

	// Request is a hash of what was asked, under the root key: a body may hold a secret
	// that is short enough to be tried out.
	Request string `dynamodbav:"request"`
	// Try is the id of the try that has the key: one that is running, if Parts is
	// 0, and the one that was answered otherwise.
	Try    string `dynamodbav:"try"`
	Parts  int    `dynamodbav:"parts"`
	Sealed []byte `dynamodbav:"sealed,omitempty"`
	TTL    int64  `dynamodbav:"ttl"`
}

// keptAnswer is what of an answer is given again. X-Request-Id is each request's
// own.
type keptAnswer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

var (
	errAnotherRequest = fault.New(fault.Unprocessable, "This Idempotency-Key was another request's of this operation within the last 24 hours: its path, query or body differ. Take a new key for each new request.")
	errStillRunning   = stillRunning()
)

func stillRunning() *fault.Fault {
	f := fault.New(fault.Conflict, "The first request with this Idempotency-Key is still being carried out. Repeat this one after the time in Retry-After, to be answered what that one is.")
	f.RetryAfter = time.Second
	return f
}

// repeatKey reads the header, "" for none.
func repeatKey(r *http.Request, d Declaration) (string, error) {
	values := r.Header.Values(idempotencyKey)
	if values == nil || !d.Repeatable() {
		return "", nil
	}
	invisible := func(c rune) bool { return c < '!' || c > '~' }
	if key := values[0]; len(values) == 1 && key != "" && len(key) <= maxKeyBytes && !strings.ContainsFunc(key, invisible) {
		return key, nil
	}
	return "", fault.InvalidField("header."+idempotencyKey, "has to be one value of 1 to %d visible ASCII characters, such as a UUID", maxKeyBytes)
}

// repetition is what is kept of one request with an Idempotency-Key. A nil one is
// a request without.
type repetition struct {
	s         *Server
	partition string
	request   string
	// earlier is what releases kept of the request that had no key for its hash.
	earlier string
	try     string
}

// repetitionOf is that of the request with the key, whose body was read.
func (s *Server) repetitionOf(ctx context.Context, r *http.Request, d Declaration, key string, body []byte) (*repetition, error) {
	if key == "" {
		return nil, nil
	}
	asked := []string{r.URL.RawQuery, string(body)}
	for segment := range strings.SplitSeq(d.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			asked = append(asked, r.PathValue(strings.TrimSuffix(name, "}")))
		}
	}
	earlier := digest(asked...)
	request, err := s.requests.Hash(ctx, earlier)
	if err != nil {
		return nil, err
	}
	st := stateOf(ctx)
	return &repetition{
		s: s, partition: answerPartition(st.principal.KeyID, d.ID, digest(key)), request: request, earlier: earlier, try: st.requestID,
	}, nil
}

// digest tells lists of texts apart.
func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// write is the write of the record, as long as no other request has the key.
func (p *repetition) write(a answerRecord, now time.Time) store.Write {
	return store.Put(answerKey(p.partition, 0), a).If(store.Or(
		store.Absent(),
		store.AtMost(store.At("ttl"), now.Unix()),
		store.And(store.Equal(store.At("try"), p.try), store.Equal(store.At("parts"), 0)),
	))
}

// reservation is the write by which a first try that makes several commits has the
// key from the first of them on. One commit needs none: of two tries the second
// finds the record of the first, and changes nothing.
func (p *repetition) reservation() store.Write {
	if p == nil {
		return store.Write{}
	}
	now := p.s.parts.Now()
	return p.write(answerRecord{Request: p.request, Try: p.try, TTL: now.Add(runningLifetime).Unix()}, now).Else(errStillRunning)
}

// release gives the key back after a try that has made no change. It is a
// convenience: the reservation ends by itself.
func (p *repetition) release(ctx context.Context) {
	now := p.s.parts.Now()
	_ = p.s.parts.Table.Commit(ctx, p.write(answerRecord{Request: p.request, Try: p.try, TTL: now.Unix()}, now).If(store.Exists()))
}

// keep are the writes that keep an answer.
func (p *repetition) keep(ctx context.Context, out *draft) ([]store.Write, error) {
	if p == nil {
		return nil, nil
	}
	raw, err := json.Marshal(keptAnswer{out.status, out.header, out.body.Bytes()})
	if err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	now := p.s.parts.Now()
	parts := slices.Collect(slices.Chunk(raw, answerPartBytes))
	writes := make([]store.Write, len(parts))
	for i, part := range parts {
		a := answerRecord{Request: p.request, Try: p.try, Parts: len(parts), TTL: now.Add(answerLifetime).Unix()}
		if a.Sealed, err = p.s.sealer.Seal(ctx, part, p.sealContext(i)); err != nil {
			return nil, fmt.Errorf("seal an answer: %w", err)
		}
		if i == 0 {
			writes[i] = p.write(a, now).Else(store.ErrStale) // and is looked up by the next run
		} else {
			writes[i] = store.Put(answerKey(p.partition, i), a)
		}
	}
	return writes, nil
}

func (p *repetition) sealContext(part int) string {
	return fmt.Sprintf("answer/%s/%d", p.partition, part)
}

// same reports whether a hash is that of the request, under a root key that there is.
func (p *repetition) same(ctx context.Context, request string) bool {
	same, err := p.s.requests.Matches(ctx, p.earlier, request)
	return err == nil && same
}

// kept gives the answer that is kept of the request, nil for none. Faults:
// Conflict for one that is still being carried out, Unprocessable for another
// request of the same key.
func (p *repetition) kept(ctx context.Context) (*draft, error) {
	if p == nil {
		return nil, nil
	}
	ctx = store.Undecided(ctx, "the answer's own write asks whether there is one")
	var raw []byte
	for part, parts := 0, 1; part < parts; part++ {
		var a answerRecord
		switch err := p.s.parts.Table.Get(ctx, answerKey(p.partition, part), &a); {
		case errors.Is(err, store.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read a kept answer: %w", err)
		case a.Request != p.request && a.Request != p.earlier && !p.same(ctx, a.Request):
			return nil, errAnotherRequest
		case a.Parts == 0 && a.Try == p.try:
			return nil, nil
		case a.Parts == 0:
			return nil, errStillRunning
		}
		parts = a.Parts
		opened, err := p.s.sealer.Open(ctx, a.Sealed, p.sealContext(part))
		if err != nil {
			return nil, fmt.Errorf("open a kept answer: %w", err)
		}
		raw = append(raw, opened...)
	}
	var a keptAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, fmt.Errorf("decode a kept answer: %w", err)
	}
	out := &draft{status: a.Status, header: a.Header}
	out.header.Set("Idempotent-Replayed", "true")
	out.body = *bytes.NewBuffer(a.Body)
	return out, nil
}

// answerChange answers an operation that changes something.
func (s *Server) answerChange(ctx context.Context, w http.ResponseWriter, r *http.Request, d Declaration, ask func(context.Context, http.ResponseWriter)) {
	key, err := repeatKey(r, d)
	var condition *entityTags
	if err == nil && d.Conditional() {
		condition, err = conditionOf(r, "If-Match")
	}
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	out, notes, err := s.change(ctx, r, d, key, condition, ask)
	if err == nil && out.succeeded() && stateOf(ctx).call.Reveal && !audit.Recorded(ctx, notes) {
		// It is an answer that was kept, or nothing was to be changed.
		err = s.revealed(ctx, r, d)
	}
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	out.send(w)
}

// change makes a change and gives its answer, which is not sent yet, with what is
// noted of it: nothing of one that was made before. A condition or a key of "" and
// nil are none.
func (s *Server) change(ctx context.Context, r *http.Request, d Declaration, key string, condition *entityTags, ask func(context.Context, http.ResponseWriter)) (*draft, *store.Notes, error) {
	if key == "" && condition == nil {
		out := newDraft()
		noted, notes := store.Note(ctx)
		ask(noted, out)
		if out.succeeded() {
			s.tag(ctx, r, d, notes, out)
		}
		return out, notes, nil
	}
	body, err := buffered(r)
	if err != nil {
		return nil, nil, fmt.Errorf("read a body: %w", err)
	}
	repeated, err := s.repetitionOf(ctx, r, d, key, body)
	if err != nil {
		return nil, nil, err
	}
	c := &heldChange{
		s: s, r: r, d: d, condition: condition, repetition: repeated,
		ask: func(ctx context.Context, w http.ResponseWriter) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			ask(ctx, w)
		},
	}
	err = s.parts.Table.Again(ctx, c.attempt)
	if c.reserved && (err != nil || !c.out.succeeded()) {
		c.repetition.release(store.Undecided(ctx, "it is its own try's"))
	}
	return c.out, c.notes, err
}

// heldChange is a change that the engine commits, since something is committed
// with it: its answer, or the condition that its caller has made.
type heldChange struct {
	s          *Server
	r          *http.Request
	d          Declaration
	condition  *entityTags
	repetition *repetition
	ask        func(context.Context, http.ResponseWriter)

	out      *draft
	notes    *store.Notes // of the run that gave out, nil for an answer that was kept
	refusal  error        // what the next run's commit is answered
	reserved bool
}

// attempt makes the change, or finds that it was made. It answers store.ErrStale
// to be called again.
func (c *heldChange) attempt(ctx context.Context) error {
	stateOf(ctx).problem, c.notes = nil, nil
	var err error
	if c.out, err = c.repetition.kept(ctx); err != nil || c.out != nil {
		return err
	}
	c.out = newDraft()
	run, held := store.Hold(ctx, c.repetition.reservation(), c.refusal)
	run, notes := store.Note(run)
	c.refusal, c.notes = nil, notes
	c.ask(run, c.out)
	c.reserved = c.reserved || held.Reserved()
	if c.out.succeeded() {
		err = c.settle(ctx, held, notes)
	} else {
		err = c.refused(ctx)
	}
	if err != nil || !c.out.succeeded() {
		held.Abandon(ctx)
	}
	if failed, ok := errors.AsType[*store.RefusedError](err); ok {
		c.refusal = failed.Err
		return store.ErrStale
	}
	return err
}

// settle commits what the run has decided, and its answer with it.
func (c *heldChange) settle(ctx context.Context, held *store.Held, notes *store.Notes) error {
	depends, err := c.s.holds(ctx, c.r, c.d, c.condition)
	if err != nil {
		return err
	}
	c.s.tag(ctx, c.r, c.d, notes, c.out)
	answer, err := c.repetition.keep(ctx, c.out)
	if err != nil {
		return err
	}
	return c.s.parts.Table.Settle(ctx, held, depends, answer...)
}

// refused looks again for another try of the same request, which may have made
// what this run was refused for: a name in use, say.
func (c *heldChange) refused(ctx context.Context) error {
	out, err := c.repetition.kept(ctx)
	switch {
	case err == nil && out != nil:
		c.out, c.notes = out, nil
		stateOf(ctx).problem = nil
	case fault.Is(err, fault.Conflict):
		return err
	}
	return nil
}
