// Package openapi checks HTTP requests and responses against the descriptions of a route, which the build reads from an
// OpenAPI document (package project). Its violations never contain a value of the message.
//
// It checks parameters of all styles and locations, bodies of JSON, forms and text, and the header fields of responses.
// Bodies of other media types are accepted unread. The package does not read requests from a connection, and does not
// decide what happens to a request with violations: policies do that.
//
// Read this file first, then parameter.go and body.go. style.go splits texts by the styles of OpenAPI, and convert.go
// converts them to the types that a schema allows.
package openapi

import (
	"slices"

	"github.com/gatewright/gatewright/shared/format/schema"
)

// MaxViolations is the maximum number of violations in a report.
const MaxViolations = 20

// maxUnknownQuery is the maximum number of unknown query parameters that a report names.
const maxUnknownQuery = 20

// The parts of a message that have violations.
const (
	InPath   = "path"
	InQuery  = "query"
	InHeader = "header"
	InCookie = "cookie"
	InBody   = "body"
	// InStatus is for a response whose status is not described.
	InStatus = "status"
)

// Violation is a mistake in a request or a response. It never contains a value.
type Violation struct {
	// In is the part of the message, such as InQuery.
	In string
	// Pointer is a JSON pointer of at most 256 bytes. For parameters and headers, its first token is the name. For
	// bodies, "" is the whole body. It can contain names that the client sent.
	Pointer string
	// Detail says what is required. It begins with "must", as in "must be 0 or more".
	Detail string
}

// Report has the results of the checks of one message. The zero value is an empty report. All checks with one report
// share its bounds: MaxViolations and schema.MaxWork. A report is not safe for concurrent use.
type Report struct {
	Violations []Violation
	// More is set if there are more violations than the report has.
	More bool
	// UnknownQuery has the names of query parameters that the description does not have: the first 20 of them, in the order
	// of the query and without duplicates. A longer name is cut to 256 bytes.
	UnknownQuery []string

	work *schema.Work
}

// IsValid reports whether no check has found a violation. Unknown query parameters are not violations, unless
// RejectUnknownQuery was called.
func (r *Report) IsValid() bool { return len(r.Violations) == 0 }

// add adds a violation, or sets More if the report has MaxViolations already.
func (r *Report) add(in, pointer, detail string) {
	if len(r.Violations) == MaxViolations {
		r.More = true
		return
	}
	r.Violations = append(r.Violations, Violation{In: in, Pointer: schema.BoundedPointer(pointer), Detail: detail})
}

// RejectUnknownQuery adds a violation for each of the names in UnknownQuery.
func (r *Report) RejectUnknownQuery() {
	for _, name := range r.UnknownQuery {
		r.add(InQuery, schema.Pointer(name), "must not be sent: there is no such parameter")
	}
}

// RejectEncoding adds the violation of a body that cannot be decompressed.
func (r *Report) RejectEncoding() { r.add(InBody, "", "must be encoded as its Content-Encoding says") }

// addUnknown adds the name of an unknown query parameter.
func (r *Report) addUnknown(name string) {
	if len(r.UnknownQuery) == maxUnknownQuery {
		return
	}
	if name = schema.BoundedPointer(name); !slices.Contains(r.UnknownQuery, name) {
		r.UnknownQuery = append(r.UnknownQuery, name)
	}
}

// remainingWork returns the work that the checks of the report share.
func (r *Report) remainingWork() *schema.Work {
	if r.work == nil {
		r.work = schema.NewWork()
	}
	return r.work
}

// tooMuchWork is the detail of the violation of a value that takes too long to be checked.
const tooMuchWork = "must have fewer or shorter values: these take too long to be checked"

// validate checks a value, and adds its violations. pointer is the place of the value.
func (r *Report) validate(s *schema.Schema, value any, in, pointer string) {
	if s == nil {
		return
	}
	found, more, err := s.Validate(value, r.remainingWork(), max(MaxViolations-len(r.Violations), 1))
	if err != nil {
		r.add(in, pointer, tooMuchWork)
		return
	}
	for _, v := range found {
		r.add(in, pointer+v.Pointer, v.Detail)
	}
	r.More = r.More || more
}

// validateAny checks whether one of several readings of a text is valid. If none is, it adds the violations of the
// first one.
func (r *Report) validateAny(s *schema.Schema, readings []any, in, pointer string) {
	for _, value := range readings {
		if valid, err := s.Matches(value, r.remainingWork()); err == nil && valid {
			return
		}
	}
	r.validate(s, readings[0], in, pointer)
}
