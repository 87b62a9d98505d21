// Package audit writes the record of every change: who did what to which
// resource, from where, and whether it succeeded (contract 3.3).
//
// The record of a successful change is one write of the change's own transaction (Record), so neither exists without
// the other. A change that was refused or failed is recorded afterwards, in a separate commit (RecordFailure). Reads
// are not recorded, except reads that request secrets (Reveal). No record contains a secret, a query string or a body.
//
// Read audit.go; table.go defines the keys of records. Package trail chains, counts and lists the records.
package audit

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Retention is how long records are kept.
const Retention = 90 * 24 * time.Hour

// Action is the kind of a change, spelled "resource.verb" (contract 3.3), such as
// "key-bucket.create". It is declared with the operation that makes the change.
type Action string

// ResourceType returns the type of the resource that the action changes.
func (a Action) ResourceType() string {
	resource, _, _ := strings.Cut(string(a), ".")
	return resource
}

// Reveal is the action of a request that shows secrets unmasked and has no other record.
const Reveal Action = "secret.reveal"

// revealedMetadata is the name in Entry.Metadata that marks a change whose request also asked to show secrets.
const revealedMetadata = "secretsRevealed"

// Creates reports whether the action creates something.
func (a Action) Creates() bool { return strings.HasSuffix(string(a), "create") }

// Entry is one record, as the API lists it and as the change's transaction stores it.
type Entry struct {
	store.UnknownAttributes

	Action    Action            `json:"action" dynamodbav:"action"`
	Metadata  map[string]string `json:"metadata" dynamodbav:"metadata"`
	Actor     Actor             `json:"actor" dynamodbav:"actor"`
	Resources []Resource        `json:"resources" dynamodbav:"resources"`
	Context   Context           `json:"context" dynamodbav:"context"`
	Route     Route             `json:"route" dynamodbav:"route"`
	Timestamp string            `json:"timestamp" dynamodbav:"timestamp"`
	RequestID string            `json:"requestId" dynamodbav:"requestId"`
	Success   *bool             `json:"success" dynamodbav:"success"`
	Error     *string           `json:"error" dynamodbav:"error"`

	TTL int64 `json:"-" dynamodbav:"ttl"`
}

// Actor is the author of a change.
type Actor struct {
	store.UnknownAttributes

	Sub        string            `json:"sub" dynamodbav:"sub"`
	Email      *string           `json:"email" dynamodbav:"email"`
	Type       string            `json:"type" dynamodbav:"type"` // user, consumer, service or anonymous
	Connection *string           `json:"connection" dynamodbav:"connection"`
	ActingAs   *ActingAs         `json:"actingAs" dynamodbav:"actingAs"`
	Metadata   map[string]string `json:"metadata" dynamodbav:"metadata"`
}

// ActingAs is the identity that the actor represents.
type ActingAs struct {
	store.UnknownAttributes

	Sub   string  `json:"sub" dynamodbav:"sub"`
	Email *string `json:"email" dynamodbav:"email"`
}

// Resource is one thing that a change touched.
type Resource struct {
	store.UnknownAttributes

	Type     string            `json:"type" dynamodbav:"type"`
	ID       string            `json:"id" dynamodbav:"id"`
	Metadata map[string]string `json:"metadata" dynamodbav:"metadata"`
}

// Context is the origin of the request. Unknown values are null.
type Context struct {
	store.UnknownAttributes

	IPAddress  *string `json:"ipAddress" dynamodbav:"ipAddress"`
	UserAgent  *string `json:"userAgent" dynamodbav:"userAgent"`
	Country    *string `json:"country" dynamodbav:"country"`
	Region     *string `json:"region" dynamodbav:"region"`
	City       *string `json:"city" dynamodbav:"city"`
	PostalCode *string `json:"postalCode" dynamodbav:"postalCode"`
	MetroCode  *string `json:"metroCode" dynamodbav:"metroCode"`
	ASOrg      *string `json:"asOrg" dynamodbav:"asOrg"`
}

// Route describes the request. The URL has no query, which may contain addresses.
type Route struct {
	store.UnknownAttributes

	Source *string `json:"source" dynamodbav:"source"` // api, mcp or gateway
	URL    *string `json:"url" dynamodbav:"url"`
	Method *string `json:"method" dynamodbav:"method"`
}

// Request has the facts about a change that are known before it is made. Package
// api creates one for each request that can change something.
type Request struct {
	AccountID string
	Action    Action
	Actor     Actor
	Context   Context
	Route     Route
	RequestID string
	Time      time.Time
	// RevealsSecrets is whether the request asked to show secrets.
	RevealsSecrets bool
}

type contextKey struct{}

// WithRequest returns a context whose changes are recorded as changes of the request r.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// Record returns the write that records the current request as successful. Add this write to the transaction of the
// change, once for each request. Record panics without a request (WithRequest): a change without a request is a defect.
func Record(ctx context.Context, resources ...Resource) store.Write {
	r := requestFrom(ctx)
	e := r.entry(true, nil, resources)
	if r.RevealsSecrets {
		e.Metadata = map[string]string{revealedMetadata: "true"}
	}
	return r.write(e).Final()
}

// IsRecorded reports whether a commit through the cache has recorded the current request.
func IsRecorded(ctx context.Context, cache *store.ReadCache) bool {
	r := requestFrom(ctx)
	return cache.Has(PendingKey(r.AccountID, r.entry(true, nil, nil)))
}

// RecordFailure returns the write that records the current request as
// failed. reason is the error text in the response to the caller of the API.
func RecordFailure(ctx context.Context, reason string) store.Write {
	r := requestFrom(ctx)
	return r.write(r.entry(false, &reason, nil))
}

func requestFrom(ctx context.Context) *Request {
	r, ok := ctx.Value(contextKey{}).(*Request)
	if !ok {
		panic("audit: no request in the context: wrap it with audit.WithRequest")
	}
	return r
}

// printable returns a text from the client in a form that every log reader can show. It replaces each non-printable
// character with U+FFFD, because such characters can control a terminal or reverse the text after them.
func printable(text *string) *string {
	if text == nil {
		return nil
	}
	return new(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return unicode.ReplacementChar
		}
		return c
	}, *text))
}

// entry returns the record of the request. reason is nil for a success.
func (r *Request) entry(success bool, reason *string, resources []Resource) Entry {
	origin := r.Context
	origin.UserAgent = printable(origin.UserAgent)
	return Entry{
		Action:    r.Action,
		Actor:     r.Actor,
		Resources: resources,
		Context:   origin,
		Route:     r.Route,
		Timestamp: Timestamp(r.Time),
		RequestID: r.RequestID,
		Success:   &success,
		Error:     printable(reason),
		TTL:       r.Time.Add(Retention).Unix(),
	}
}

// timestampFormat has a fixed width, so its texts sort by time.
const timestampFormat = "2006-01-02T15:04:05.000Z"

// Timestamp formats a time as records do: UTC, to the millisecond.
func Timestamp(t time.Time) string { return t.UTC().Format(timestampFormat) }

// Time returns the time of the entry. It returns an error if the entry's timestamp is not in the format of Timestamp.
func (e Entry) Time() (time.Time, error) {
	t, err := time.Parse(timestampFormat, e.Timestamp)
	if err != nil {
		return time.Time{}, fmt.Errorf("read an audit record's time: %w", err)
	}
	return t, nil
}

// write returns the write that creates the entry, with the request's time and id in
// its key. A request that is recorded twice is a defect, and its second commit fails.
func (r *Request) write(e Entry) store.Write { return store.Create(PendingKey(r.AccountID, e), e) }
