// Package fault has the one error type that crosses package boundaries. A Fault
// says what went wrong in words that a caller may read, and keeps the cause
// apart, which only the log may have.
//
// A fault is made where its meaning is known (a service, the store) and climbs
// unchanged; only package api turns it into a problem document. It knows no
// status codes: those stand in contract 1.2 and are mapped in package api.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind says what a caller can do about a fault.
type Kind int

// The kinds, in the order of the status table in contract 1.2.
const (
	// Internal is everything a caller can do nothing about.
	Internal Kind = iota
	// Invalid input: the request has to change before it is repeated.
	Invalid
	// Unauthenticated: no account key, or one that is unknown or expired.
	Unauthenticated
	// Forbidden: the key is known and lacks a scope or permission.
	Forbidden
	// NotFound: absent, or invisible to this key, which is the same.
	NotFound
	// Conflict: the request contradicts what is stored, such as a name in use.
	Conflict
	// Unprocessable: a project name that clients shall ask for again, an
	// Idempotency-Key that was another request's.
	Unprocessable
	// Outdated: what the request is about is not as the caller said it has to be.
	Outdated
	// TooLarge: a body or an archive over its limit.
	TooLarge
	// Throttled: refused, nothing was done; repeat after Fault.RetryAfter.
	Throttled
	// Unavailable: a dependency does not answer; repeating is safe.
	Unavailable
	// Unanswered: the database does not answer. Public says whether the request
	// may have been done, and repeating it is not safe before a look.
	Unanswered
)

// Detail names one offending field of an input.
type Detail struct {
	// Field is its name, and where it is in a larger one: "tags",
	// "managers[2].email"; "" is the input as a whole. Whether it came in a body,
	// a path or a query is known to package api, which adds it.
	Field string
	// Message says what is wrong with it and never repeats its value, which
	// may be a secret.
	Message string
}

// Fault is an error whose public text may leave the process.
type Fault struct {
	Kind Kind
	// Public tells the caller what to do. It holds no secret and no cause.
	Public string
	// Details lists the fields at fault, empty for all but Invalid.
	Details []Detail
	// RetryAfter is how long a Throttled caller should wait, or one whose Conflict
	// passes by itself: whole seconds, 0 for one that does not.
	RetryAfter time.Duration

	cause error
}

// Error returns the public text and, for the log, the cause.
func (f *Fault) Error() string {
	if f.cause != nil {
		return fmt.Sprintf("%s: %v", f.Public, f.cause)
	}
	return f.Public
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.cause }

// Because returns a copy of the fault that carries cause for the log.
func (f *Fault) Because(cause error) *Fault {
	c := *f
	c.cause = cause
	return &c
}

// New makes a fault of a kind.
func New(kind Kind, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Public: fmt.Sprintf(format, args...)}
}

// InvalidField makes an Invalid fault about one field.
func InvalidField(field, format string, args ...any) *Fault {
	var f Fields
	f.Add(field, format, args...)
	return f.fault()
}

// Fields gathers everything that is wrong with an input, so that a caller
// hears it all at once. The zero value has nothing.
type Fields []Detail

// Add tells of a field. The message never repeats its value.
func (f *Fields) Add(field, format string, args ...any) {
	*f = append(*f, Detail{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Err is the Invalid fault that tells of all fields, nil when there is none.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f.fault()
}

func (f Fields) fault() *Fault { return &Fault{Kind: Invalid, Public: Text(f), Details: f} }

// Text is what is wrong with fields, as one line.
func Text(details []Detail) string {
	text := make([]string, len(details))
	for i, d := range details {
		text[i] = d.Field + ": " + d.Message
	}
	return strings.Join(text, "; ")
}

// Renamed returns an error whose fault calls a field by another name: that of the
// input which the caller wrote, where it differs from the service's.
func Renamed(err error, from, to string) error {
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		return err
	}
	c := *f
	c.Details = slices.Clone(f.Details)
	for i, d := range c.Details {
		if d.Field == from {
			c.Details[i].Field = to
		}
	}
	if len(c.Details) > 0 {
		c.Public = Text(c.Details)
	}
	return &c
}

// Missing makes the NotFound fault of a kind of thing. The text never names
// the thing itself, so that an invisible one reads like an absent one.
func Missing(noun string) *Fault {
	return New(NotFound, "This %s does not exist, or this key cannot see it.", noun)
}

// KindOf returns the kind of the first fault in err's chain, Internal for none.
func KindOf(err error) Kind {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Kind
	}
	return Internal
}

// Is reports whether err's chain holds a fault of the kind.
func Is(err error, kind Kind) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Kind == kind
}
