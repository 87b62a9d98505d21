// Package audit writes the record of every change: who did what to which
// resource, from where, and whether it succeeded (contract 3.3).
//
// The record of a successful change is one write of the change's own
// transaction (Record), so neither exists without the other. A change that was
// refused or failed is recorded afterwards, on its own (Refused). Reads are
// not recorded, but for those that were asked to show secrets (Reveal). No record
// holds a secret, a query string or a body.
//
// Read audit.go; table.go says where records stand. What becomes of them there,
// how they are chained, counted and listed, is package trail.
package audit

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/gatewright/gatewright/shared/store"
)

// Retention is how long records are kept.
const Retention = 90 * 24 * time.Hour

// Action is what a change does, spelled "resource.verb" (contract 3.3), such as
// "key-bucket.create". It is declared with the operation that does it.
type Action string

// Noun is the type of what the action is done to.
func (a Action) Noun() string {
	noun, _, _ := strings.Cut(string(a), ".")
	return noun
}

// Reveal is the action of a request that was asked to show secrets which it masks
// otherwise, and that no other record tells of.
const Reveal Action = "secret.reveal"

// revealed is what the record of a change says beside it (Entry.Metadata) when its
// answer was asked to show secrets.
const revealed = "secretsRevealed"

// Makes reports whether the action makes something that was not there.
func (a Action) Makes() bool { return strings.HasSuffix(string(a), "create") }

// Entry is one record, in the shape that the API lists.
type Entry struct {
	store.Rest

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

// Actor is who asked.
type Actor struct {
	store.Rest

	Sub        string            `json:"sub" dynamodbav:"sub"`
	Email      *string           `json:"email" dynamodbav:"email"`
	Type       string            `json:"type" dynamodbav:"type"` // user, consumer, service or anonymous
	Connection *string           `json:"connection" dynamodbav:"connection"`
	ActingAs   *ActingAs         `json:"actingAs" dynamodbav:"actingAs"`
	Metadata   map[string]string `json:"metadata" dynamodbav:"metadata"`
}

// ActingAs is whom the actor stands for.
type ActingAs struct {
	store.Rest

	Sub   string  `json:"sub" dynamodbav:"sub"`
	Email *string `json:"email" dynamodbav:"email"`
}

// Resource is one thing that a change touched.
type Resource struct {
	store.Rest

	Type     string            `json:"type" dynamodbav:"type"`
	ID       string            `json:"id" dynamodbav:"id"`
	Metadata map[string]string `json:"metadata" dynamodbav:"metadata"`
}

// Context is where the request came from. What is not known is null.
type Context struct {
	store.Rest

	IPAddress  *string `json:"ipAddress" dynamodbav:"ipAddress"`
	UserAgent  *string `json:"userAgent" dynamodbav:"userAgent"`
	Country    *string `json:"country" dynamodbav:"country"`
	Region     *string `json:"region" dynamodbav:"region"`
	City       *string `json:"city" dynamodbav:"city"`
	PostalCode *string `json:"postalCode" dynamodbav:"postalCode"`
	MetroCode  *string `json:"metroCode" dynamodbav:"metroCode"`
	ASOrg      *string `json:"asOrg" dynamodbav:"asOrg"`
}

// Route is the request: its path without the query, which may hold addresses.
type Route struct {
	store.Rest

	Source *string `json:"source" dynamodbav:"source"` // api, mcp or gateway
	URL    *string `json:"url" dynamodbav:"url"`
	Method *string `json:"method" dynamodbav:"method"`
}

// Request is what is known of a change before it is made. Package api makes
// one for each request that may change something.
type Request struct {
	AccountID string
	Action    Action
	Actor     Actor
	Context   Context
	Route     Route
	RequestID string
	Time      time.Time
	// Reveals is whether its answer was asked to show secrets.
	Reveals bool
}

type contextKey struct{}

// With has the changes made under the context recorded as r's.
func With(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// Record makes the write that records the running request as successful, to be
// put into the change's own transaction, once for each request. It panics
// without a request (With): a change nobody asked for is a defect.
func Record(ctx context.Context, resources ...Resource) store.Write {
	r := from(ctx)
	e := r.entry(true, nil, resources)
	if r.Reveals {
		e.Metadata = map[string]string{revealed: "true"}
	}
	return r.write(e).Decides()
}

// Recorded reports whether a commit under the context of the notes has recorded the
// running request.
func Recorded(ctx context.Context, notes *store.Notes) bool {
	r := from(ctx)
	return notes.Has(WaitingKey(r.AccountID, r.entry(true, nil, nil)))
}

// Refused makes the write that records the running request as failed. reason
// is the text that the caller reads.
func Refused(ctx context.Context, reason string) store.Write {
	r := from(ctx)
	return r.write(r.entry(false, &reason, nil))
}

func from(ctx context.Context) *Request {
	r, ok := ctx.Value(contextKey{}).(*Request)
	if !ok {
		panic("audit: no request in the context: wrap it with audit.With")
	}
	return r
}

// shown is a text that whoever asks may choose, as every reader of the log can show
// it: in place of what controls a terminal, or turns what stands behind it around,
// it has U+FFFD.
func shown(text *string) *string {
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

func (r *Request) entry(success bool, reason *string, resources []Resource) Entry {
	origin := r.Context
	origin.UserAgent = shown(origin.UserAgent)
	return Entry{
		Action:    r.Action,
		Actor:     r.Actor,
		Resources: resources,
		Context:   origin,
		Route:     r.Route,
		Timestamp: Timestamp(r.Time),
		RequestID: r.RequestID,
		Success:   &success,
		Error:     shown(reason),
		TTL:       r.Time.Add(Retention).Unix(),
	}
}

// timestampFormat has a fixed width, so that its texts sort as their times.
const timestampFormat = "2006-01-02T15:04:05.000Z"

// Timestamp spells a time as records do: UTC, to the millisecond.
func Timestamp(t time.Time) string { return t.UTC().Format(timestampFormat) }

// Time is when the entry was made; an error for one that no Record has made.
func (e Entry) Time() (time.Time, error) {
	t, err := time.Parse(timestampFormat, e.Timestamp)
	if err != nil {
		return time.Time{}, fmt.Errorf("read an audit record's time: %w", err)
	}
	return t, nil
}

// write stores the entry under the request's own time and id: a request that
// is recorded twice is a defect, and fails.
func (r *Request) write(e Entry) store.Write { return store.Create(WaitingKey(r.AccountID, e), e) }
