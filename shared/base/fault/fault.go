// Package fault has the type of the errors that callers of the API get. A Fault describes an error in words for the
// caller, and keeps the cause for the log separate from these words.
//
// Services and the store create a Fault where they detect an error, and their callers return it unchanged. Package
// api converts it to a problem document. This package does not know status codes: contract 1.2 has them, and package
// api maps the kinds to them.
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
	// Internal means that the caller cannot do anything about the error.
	Internal Kind = iota
	// Invalid means that the input is invalid: the request has to change before it is repeated.
	Invalid
	// Unauthenticated means that the request has no valid credential: an account key, a session, a consumer's key or a
	// client certificate.
	Unauthenticated
	// Forbidden means that the credential is valid, but the key lacks a scope or permission, the page's origin is not
	// allowed, or a limit of the account is reached.
	Forbidden
	// NotFound means that the object does not exist, or that the key cannot see it. Callers cannot distinguish the two
	// cases.
	NotFound
	// Conflict means that the request contradicts stored data, such as a name in use.
	Conflict
	// Unprocessable means that a project name is in use or invalid (clients prompt for another one), or that an
	// Idempotency-Key belongs to another request.
	Unprocessable
	// PreconditionFailed means that the object is not in the state that the caller required (If-Match).
	PreconditionFailed
	// TooLarge means that a body or an archive exceeds its limit.
	TooLarge
	// Throttled means that the request was refused without effect. Repeat it after Fault.RetryAfter.
	Throttled
	// Unavailable means that a dependency does not respond, or that there is no memory for the body. Repeating the request
	// is safe.
	Unavailable
	// DatabaseUnavailable means that the database does not respond. Public says whether
	// the request could have taken effect. Check that before repeating it.
	DatabaseUnavailable
)

var kindNames = [...]string{
	"Internal", "Invalid", "Unauthenticated", "Forbidden", "NotFound", "Conflict", "Unprocessable", "PreconditionFailed",
	"TooLarge", "Throttled", "Unavailable", "DatabaseUnavailable",
}

// String returns the name of the kind's constant.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return kindNames[k]
}

// Detail names one invalid field of an input.
type Detail struct {
	// Field is the field's name with its place in the input: "tags", "managers[2].email". It is ""
	// for the input as a whole. Package api adds whether it is in the body, the path or the query.
	Field string
	// Message says what is wrong with the field. It never repeats the value, which can be a secret.
	Message string
}

// Fault is an error whose public text can leave the process.
type Fault struct {
	Kind Kind
	// Public says what the caller should do. It contains no secret and no cause.
	Public string
	// Details lists the invalid fields. It is empty for all kinds except Invalid.
	Details []Detail
	// RetryAfter is how long the caller should wait after a Throttled or Unavailable fault or a temporary Conflict. It is
	// 0 for a conflict that waiting does not resolve.
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

// WithCause returns a copy of the fault with the cause for the log.
func (f *Fault) WithCause(cause error) *Fault {
	c := *f
	c.cause = cause
	return &c
}

// New returns a fault of a kind.
func New(kind Kind, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Public: fmt.Sprintf(format, args...)}
}

// InvalidField returns an Invalid fault about one field.
func InvalidField(field, format string, args ...any) *Fault {
	var f Fields
	f.Add(field, format, args...)
	return f.fault()
}

// Fields collects all mistakes in an input, so that the caller gets them together. The zero value has no mistakes.
type Fields []Detail

// Add adds a mistake in a field. The message must not repeat the field's value.
func (f *Fields) Add(field, format string, args ...any) {
	*f = append(*f, Detail{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Err returns an Invalid fault with all mistakes, or nil if there are none.
func (f Fields) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f.fault()
}

func (f Fields) fault() *Fault { return &Fault{Kind: Invalid, Public: Text(f), Details: f} }

// Text returns the names and messages of the details as one line.
func Text(details []Detail) string {
	text := make([]string, len(details))
	for i, d := range details {
		text[i] = d.Field + ": " + d.Message
	}
	return strings.Join(text, "; ")
}

// RenameField returns a copy of err's fault with another name for one field. from is the old name of the field, and to
// is its new name. Use RenameField if the field has another name in the caller's input than in the service. If err has
// no fault, RenameField returns err.
func RenameField(err error, from, to string) error {
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

// Missing returns the NotFound fault for an object. resource is the type of the object, such as "key". The text never
// names the object, so that an invisible object reads like a missing one.
func Missing(resource string) *Fault {
	return New(NotFound, "This %s does not exist, or this key cannot see it.", resource)
}

// KindOf returns the kind of the first fault in err's chain, or Internal if there is none.
func KindOf(err error) Kind {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Kind
	}
	return Internal
}

// Is reports whether err's chain has a fault of the kind.
func Is(err error, kind Kind) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Kind == kind
}
