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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// A request with an Idempotency-Key makes its change once, however often it is sent within 24 hours (contract
// 9; decision 0033). Its response is stored in the same transaction as the change, so that
// neither exists without the other. The response is known only after the handler has returned.
// Therefore the handler runs with store.DeferCommit, and this package commits after it.
//
// Refusals change nothing and are not stored: a client can correct the request and repeat it with the same key.

const (
	// idempotencyKeyHeader is the name of the header, also in problems.
	idempotencyKeyHeader = "Idempotency-Key"
	// maxKeyBytes is the maximum length of an Idempotency-Key (contract 9).
	maxKeyBytes = 255
	// responseLifetime is the time for which a response is stored (contract 9).
	responseLifetime = 24 * time.Hour
	// reservationLifetime is the time for which an attempt with several commits reserves its key, from its
	// first commit on. It is longer than the maximum time of a request on the platform (29 s).
	reservationLifetime = 35 * time.Second
	// responsePartBytes is the size of the part of a response in one item. With the
	// overhead of sealing and the item's key, an item is smaller than store.MaxItemBytes.
	responsePartBytes = 300 << 10
)

// idempotencyRecord is the record of a request with an Idempotency-Key. It has the first part of the response
// if the response exists. Further parts are in items of the same type (responseKey). The record is invalid after
// its ttl: then another request may use the key.
type idempotencyRecord struct {
	store.UnknownAttributes

	// Request is a hash of the request. The hash is keyed with the root key, because a body can
	// contain a secret that is short enough to be guessed from an ordinary hash.
	Request string `dynamodbav:"request"`
	// AttemptID is the request id of an attempt. If Parts is 0, it is the attempt
	// that is running. Otherwise it is the attempt whose response is stored.
	AttemptID string `dynamodbav:"try"`
	// Parts is the number of parts of the stored response, or 0 if there is no response yet. Sealed is
	// the part in this item, encrypted.
	Parts  int    `dynamodbav:"parts"`
	Sealed []byte `dynamodbav:"sealed,omitempty"`
	TTL    int64  `dynamodbav:"ttl"`
}

// storedResponse is the part of a response that is sent again. It
// does not contain X-Request-Id, which differs for each request.
type storedResponse struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

var (
	errKeyReused = fault.New(fault.Unprocessable, "This Idempotency-Key was another request's of this operation within "+
		"the last 24 hours: its path, query or body differ. Take a new key for each new request.")
	errInProgress = inProgressFault()
)

func inProgressFault() *fault.Fault {
	f := fault.New(fault.Conflict, "The first request with this Idempotency-Key is still being carried out. Repeat this "+
		"one after the time in Retry-After, to be answered what that one is.")
	f.RetryAfter = time.Second
	return f
}

// readIdempotencyKey returns the value of the header Idempotency-Key,
// or "" if there is none or the operation does not accept it.
func readIdempotencyKey(r *http.Request, d Declaration) (string, error) {
	values := r.Header.Values(idempotencyKeyHeader)
	if values == nil || !d.TakesIdempotencyKey() {
		return "", nil
	}
	invisible := func(c rune) bool { return c < '!' || c > '~' }
	if key := values[0]; len(values) == 1 && key != "" && len(key) <= maxKeyBytes &&
		!strings.ContainsFunc(key, invisible) {
		return key, nil
	}
	return "", fault.InvalidField("header."+idempotencyKeyHeader,
		"has to be one value of 1 to %d visible ASCII characters, such as a UUID", maxKeyBytes)
}

// idempotentRequest reads and writes the idempotencyRecord of one request. It is nil for a
// request without an Idempotency-Key: load, reservation and storeWrites do nothing then.
type idempotentRequest struct {
	s           *Server
	partition   string
	requestHash string
	// legacyHash is the hash that previous releases stored for the request. It is not keyed.
	legacyHash string
	attemptID  string
}

// newIdempotentRequest returns the idempotentRequest of a request with the
// key, or nil if key is "". body is the request's body, which was read before.
func (s *Server) newIdempotentRequest(
	ctx context.Context, r *http.Request, d Declaration, key string, body []byte,
) (*idempotentRequest, error) {
	if key == "" {
		return nil, nil
	}
	parts := []string{r.URL.RawQuery, string(body)}
	for segment := range strings.SplitSeq(d.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			parts = append(parts, r.PathValue(strings.TrimSuffix(name, "}")))
		}
	}
	legacyHash := digest(parts...)
	requestHash, err := s.requestHasher.Hash(ctx, legacyHash)
	if err != nil {
		return nil, err
	}
	st := stateOf(ctx)
	return &idempotentRequest{
		s: s, partition: responsePartition(st.principal.KeyID, d.ID, digest(key)), requestHash: requestHash,
		legacyHash: legacyHash, attemptID: st.requestID,
	}, nil
}

// digest returns a hash that is different for different lists of texts.
func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// recordWrite returns the write of the record. Its condition is that no other attempt has the key.
func (r *idempotentRequest) recordWrite(record idempotencyRecord, now time.Time) store.Write {
	return store.Put(responseKey(r.partition, 0), record).If(store.Or(
		store.Absent(),
		store.AtMost(store.At("ttl"), now.Unix()),
		store.And(store.Equal(store.At("try"), r.attemptID), store.Equal(store.At("parts"), 0)),
	))
}

// reservation returns the write with which an attempt reserves the key at its
// first commit, if it makes several commits. A single commit needs no reservation:
// of two attempts, the second finds the record of the first and changes nothing.
func (r *idempotentRequest) reservation() store.Write {
	if r == nil {
		return store.Write{}
	}
	now := r.s.parts.Now()
	return r.recordWrite(idempotencyRecord{
		Request: r.requestHash, AttemptID: r.attemptID,
		TTL: now.Add(reservationLifetime).Unix(),
	}, now).Else(errInProgress)
}

// release releases the reserved key after a change that failed and whose early commits were undone
// (store.DeferredCommit.Abandon). If release fails, the reservation expires anyway.
func (r *idempotentRequest) release(ctx context.Context) {
	now := r.s.parts.Now()
	record := idempotencyRecord{Request: r.requestHash, AttemptID: r.attemptID, TTL: now.Unix()}
	_ = r.s.parts.Table.Commit(ctx, r.recordWrite(record, now).If(store.Exists()))
}

// storeWrites returns the writes that store a response.
func (r *idempotentRequest) storeWrites(ctx context.Context, out *bufferedResponse) ([]store.Write, error) {
	if r == nil {
		return nil, nil
	}
	raw, err := json.Marshal(storedResponse{out.status, out.header, out.body.Bytes()})
	if err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	now := r.s.parts.Now()
	parts := slices.Collect(slices.Chunk(raw, responsePartBytes))
	writes := make([]store.Write, len(parts))
	for i, part := range parts {
		record := idempotencyRecord{
			Request: r.requestHash, AttemptID: r.attemptID, Parts: len(parts),
			TTL: now.Add(responseLifetime).Unix(),
		}
		if record.Sealed, err = r.s.sealer.Seal(ctx, part, r.sealContext(i)); err != nil {
			return nil, fmt.Errorf("seal an answer: %w", err)
		}
		if i == 0 {
			writes[i] = r.recordWrite(record, now).Else(store.ErrStale) // the next attempt reads the record
		} else {
			writes[i] = store.Put(responseKey(r.partition, i), record)
		}
	}
	return writes, nil
}

func (r *idempotentRequest) sealContext(part int) string {
	return fmt.Sprintf("answer/%s/%d", r.partition, part)
}

// matchesHash reports whether a hash is the request's hash with any of the existing root keys.
func (r *idempotentRequest) matchesHash(ctx context.Context, hash string) bool {
	matches, err := r.s.requestHasher.Matches(ctx, r.legacyHash, hash)
	return err == nil && matches
}

// load returns the stored response of the request, or nil if there is none. Faults: Conflict if
// the request is still being carried out, Unprocessable if another request has the same key.
func (r *idempotentRequest) load(ctx context.Context) (*bufferedResponse, error) {
	if r == nil {
		return nil, nil
	}
	ctx = store.WithoutReadSet(ctx, "the answer's own write asks whether there is one")
	var raw []byte
	for part, parts := 0, 1; part < parts; part++ {
		var a idempotencyRecord
		switch err := r.s.parts.Table.Get(ctx, responseKey(r.partition, part), &a); {
		case errors.Is(err, store.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read a kept answer: %w", err)
		case a.Request != r.requestHash && a.Request != r.legacyHash && !r.matchesHash(ctx, a.Request):
			return nil, errKeyReused
		case a.Parts == 0 && a.AttemptID == r.attemptID:
			return nil, nil
		case a.Parts == 0:
			return nil, errInProgress
		}
		parts = a.Parts
		plain, err := r.s.sealer.Open(ctx, a.Sealed, r.sealContext(part))
		if err != nil {
			return nil, fmt.Errorf("open a kept answer: %w", err)
		}
		raw = append(raw, plain...)
	}
	var a storedResponse
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, fmt.Errorf("decode a kept answer: %w", err)
	}
	out := &bufferedResponse{status: a.Status, header: a.Header}
	out.header.Set("Idempotent-Replayed", "true")
	out.body = *bytes.NewBuffer(a.Body)
	return out, nil
}

// serveChange serves an operation that changes something.
func (s *Server) serveChange(
	ctx context.Context, w http.ResponseWriter, r *http.Request, d Declaration,
	serve func(context.Context, http.ResponseWriter),
) {
	key, err := readIdempotencyKey(r, d)
	var condition *entityTags
	if err == nil && d.AcceptsIfMatch() {
		condition, err = conditionOf(r, "If-Match")
	}
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	out, readCache, err := s.change(ctx, r, d, key, condition, serve)
	if err == nil && out.succeeded() && stateOf(ctx).call.Reveal && !audit.IsRecorded(ctx, readCache) {
		// An earlier request has made the change, or there was nothing to change. Then no audit record was written.
		err = s.recordReveal(ctx, r, d)
	}
	if err != nil {
		writeProblem(ctx, w, err)
		return
	}
	out.send(w)
}

// change makes a change. It returns the response, which is not sent yet, and the read cache of the attempt. The
// read cache is nil if an earlier request has made the change. key is "" if the request has no Idempotency-Key or
// is a dry run. condition is nil if the request has no If-Match.
func (s *Server) change(
	ctx context.Context, r *http.Request, d Declaration, key string, condition *entityTags,
	serve func(context.Context, http.ResponseWriter),
) (*bufferedResponse, *store.ReadCache, error) {
	if key == "" && condition == nil {
		out := newBufferedResponse()
		readCtx, readCache := store.WithReadCache(ctx)
		serve(readCtx, out)
		if out.succeeded() {
			s.setETag(ctx, r, d, readCache, out)
		}
		return out, readCache, nil
	}
	body, err := readBuffered(r)
	if err != nil {
		return nil, nil, fmt.Errorf("read a body: %w", err)
	}
	idempotent, err := s.newIdempotentRequest(ctx, r, d, key, body)
	if err != nil {
		return nil, nil, err
	}
	c := &deferredChange{
		s: s, r: r, d: d, condition: condition, idempotent: idempotent,
		serve: func(ctx context.Context, w http.ResponseWriter) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			serve(ctx, w)
		},
	}
	err = s.parts.Table.RunInTx(ctx, c.attempt)
	if c.reserved && (err != nil || !c.out.succeeded()) {
		c.idempotent.release(store.WithoutReadSet(ctx, "it is its own try's"))
	}
	return c.out, c.readCache, err
}

// deferredChange is a change that this package commits, because the
// commit also includes the response or the condition in If-Match.
type deferredChange struct {
	s          *Server
	r          *http.Request
	d          Declaration
	condition  *entityTags
	idempotent *idempotentRequest
	serve      func(context.Context, http.ResponseWriter)

	out       *bufferedResponse
	readCache *store.ReadCache // of the attempt that returned out; nil for a stored response
	commitErr error            // the error that the next attempt's commit must return
	reserved  bool             // an attempt has reserved the key
}

// attempt makes the change, or finds the stored response of an earlier
// request. It returns store.ErrStale if the caller must call it again.
func (c *deferredChange) attempt(ctx context.Context) error {
	stateOf(ctx).problem, c.readCache = nil, nil
	var err error
	if c.out, err = c.idempotent.load(ctx); err != nil || c.out != nil {
		return err
	}
	c.out = newBufferedResponse()
	runCtx, deferred := store.DeferCommit(ctx, c.idempotent.reservation(), c.commitErr)
	runCtx, readCache := store.WithReadCache(runCtx)
	c.commitErr, c.readCache = nil, readCache
	c.serve(runCtx, c.out)
	c.reserved = c.reserved || deferred.Reserved()
	if c.out.succeeded() {
		err = c.commit(ctx, deferred, readCache)
	} else {
		err = c.recheck(ctx)
	}
	if err != nil || !c.out.succeeded() {
		deferred.Abandon(ctx)
	}
	if refusedErr, ok := errors.AsType[*store.RefusedError](err); ok {
		c.commitErr = refusedErr.Err
		return store.ErrStale
	}
	return err
}

// commit commits the change that the attempt has prepared, together with its response.
func (c *deferredChange) commit(ctx context.Context, deferred *store.DeferredCommit, readCache *store.ReadCache) error {
	preconditions, err := c.s.checkIfMatch(ctx, c.r, c.d, c.condition)
	if err != nil {
		return err
	}
	c.s.setETag(ctx, c.r, c.d, readCache, c.out)
	writes, err := c.idempotent.storeWrites(ctx, c.out)
	if err != nil {
		return err
	}
	return c.s.parts.Table.CommitDeferred(ctx, deferred, preconditions, writes...)
}

// recheck checks again whether another attempt of the same request has made the change. That
// can be the reason why this attempt is refused: for example, the name is already in use.
// recheck returns the Conflict of an attempt that is running, and ignores other errors: then the refusal stands.
func (c *deferredChange) recheck(ctx context.Context) error {
	out, err := c.idempotent.load(ctx)
	switch {
	case err == nil && out != nil:
		c.out, c.readCache = out, nil
		stateOf(ctx).problem = nil
	case fault.Is(err, fault.Conflict):
		return err
	}
	return nil
}
