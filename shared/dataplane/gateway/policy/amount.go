package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/format/project"
)

// amountOptions says where a response contains the number of units that were used.
// The number can't come from a request, because clients could send any amount.
type amountOptions struct {
	ResponseHeader string `json:"responseHeader"`
	// ResponseBody is a JSON pointer into the response.
	ResponseBody string `json:"responseBody"`
	// Max is the largest amount that a response can count. The gateway takes this amount before it sends the request.
	Max int64 `json:"max" required:"true" minimum:"1" maximum:"9007199254740991"`
	// Default is the amount for a successful response that does not contain a valid amount; nil means Max.
	Default *int64 `json:"otherwise" minimum:"0" maximum:"9007199254740991"`
}

// amount reads the units from a response.
type amount struct {
	header   string
	pointer  jsonPointer // nil if the header has the amount
	fallback int64       // amount of a response without a valid amount
}

// maxReadBody is the maximum size of a response's body if the policy reads the amount from it.
const maxReadBody = 1 << 20

// newAmount reads the options of the meter at pointer. It also returns the maximum amount of a response.
func newAmount(pointer string, raw json.RawMessage) (*amount, int64, []project.Problem) {
	var o amountOptions
	problems := options.ReadMember(pointer, raw, &o, "")
	a := &amount{header: http.CanonicalHeaderKey(o.ResponseHeader), fallback: o.Max}
	switch {
	case o.ResponseHeader == "" && o.ResponseBody == "":
		problems = append(problems,
			options.Problem(pointer,
				`Say where the upstream's answers have the amount: a header in "responseHeader", `+
					`or a JSON pointer in "responseBody".`))
	case o.ResponseHeader != "" && o.ResponseBody != "":
		problems = append(problems, options.Problem(pointer+"/responseBody",
			`Remove "responseBody" or "responseHeader": one says where the amount is.`))
	case o.ResponseHeader != "" && !httpguts.ValidHeaderFieldName(o.ResponseHeader):
		problems = append(problems, options.Problem(pointer+"/responseHeader",
			`Write the name of a header, such as "X-Units".`))
	case o.ResponseBody != "":
		var text string
		if a.pointer, text = parsePointer(o.ResponseBody); text != "" {
			problems = append(problems, options.Problem(pointer+"/responseBody", "%s", text))
		}
	}
	if o.Default != nil {
		a.fallback = *o.Default
		if o.Max > 0 && a.fallback > o.Max {
			problems = append(problems, options.Problem(pointer+"/otherwise",
				`Write at most what "max" is: no answer counts more.`))
		}
	}
	return a, o.Max, problems
}

// settle refunds the units that the request has taken and not used. If the handler was not called, settle calls
// release. Otherwise it refunds, for each amount, the difference between the maximum and the amount in the response.
func (r *reservations) settle(response *http.Response, handled bool) {
	if !handled {
		r.release()
		return
	}
	var inBody []*reservation
	s := settlement{reservations: r, status: response.StatusCode}
	// A client that disconnects early gets no response, but the upstream may have done all the work.
	s.countsDefault = s.status < http.StatusMultipleChoices || r.x.Context.Err() != nil
	for i := range r.entries {
		entry := &r.entries[i]
		switch a := entry.meter.amount; {
		case a == nil:
		case a.pointer != nil:
			inBody = append(inBody, entry)
		default:
			s.count(entry, headerAmount(response.Header[a.header]))
		}
	}
	if len(inBody) > 0 {
		s.readBody(response, inBody)
	}
}

// settlement settles the reservations of a request after its response.
type settlement struct {
	*reservations
	status int
	// countsDefault is set if a response without a valid amount counts the default amount.
	countsDefault bool
}

// parsedAmount is the amount that a response has for a meter, or the reason why it has none.
type parsedAmount struct {
	units int64
	err   error
}

var (
	errNoAmount      = errors.New("the answer does not say the amount")
	errBadAmount     = errors.New("the amount is no whole number of at least 0")
	errEncoded       = errors.New("the answer is compressed, although it was asked for without")
	errLargeResponse = fmt.Errorf("the answer has more than %d bytes", maxReadBody)
	errNotJSON       = errors.New("the answer is not JSON, or ended early")
	errAboveMax      = errors.New("the amount is above max")
)

func headerAmount(values []string) parsedAmount {
	if len(values) == 0 {
		return parsedAmount{err: errNoAmount}
	}
	if len(values) > 1 {
		return parsedAmount{err: errBadAmount}
	}
	return parseAmount(strings.TrimSpace(values[0]))
}

// parseAmount parses a whole JSON number of at least 0. For a number above 2^53, it
// returns 2^53, which is above any Max.
func parseAmount(text string) parsedAmount {
	var f float64
	if text == "" || text[0] < '0' || text[0] > '9' || json.Unmarshal([]byte(text), &f) != nil || f != math.Trunc(f) {
		return parsedAmount{err: errBadAmount}
	}
	return parsedAmount{units: int64(min(f, 1<<53))}
}

// count settles a reservation with the amount in the response. An amount above Max counts as Max. If the
// amount is missing or invalid, the reservation counts Default if countsDefault is set, and nothing otherwise.
// Default is Max by default. So an owner who sells by amount loses nothing if an upstream does not send the amount.
func (s *settlement) count(entry *reservation, parsed parsedAmount) {
	a, used := entry.meter.amount, parsed.units
	switch {
	case parsed.err != nil && !s.countsDefault:
		used, parsed.err = 0, nil
	case parsed.err != nil:
		used = a.fallback
	case used > entry.meter.units:
		used, parsed.err = entry.meter.units, errAboveMax
	}
	if parsed.err != nil {
		s.p.log.LogAttrs(s.x.Context, slog.LevelWarn, "amount not read", append(s.p.attributes(s.x),
			slog.String("meter", entry.meter.name), slog.Int("status", s.status), slog.Int64("units", used),
			slog.Any("error", parsed.err))...)
	}
	s.refundUnits(entry, entry.meter.units-used)
}

// readBody settles the reservations whose amount is in the body, when the body has ended or is closed.
// If the response shows that no amount can be read from its body, readBody settles them immediately.
func (s *settlement) readBody(response *http.Response, entries []*reservation) {
	settleAll := func(err error) {
		for _, entry := range entries {
			s.count(entry, parsedAmount{err: err})
		}
	}
	switch encoding := response.Header.Get("Content-Encoding"); {
	case s.status == http.StatusSwitchingProtocols, response.Body == http.NoBody:
		settleAll(errNoAmount)
		return
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		settleAll(errEncoded)
		return
	case response.ContentLength > maxReadBody:
		settleAll(errLargeResponse)
		return
	}
	response.Body = &observedBody{ReadCloser: response.Body, settle: func(body []byte, tooLarge bool) {
		if tooLarge {
			settleAll(errLargeResponse)
			return
		}
		for _, entry := range entries {
			s.count(entry, entry.meter.amount.pointer.amount(body))
		}
	}}
}

// observedBody copies a body of up to maxReadBody bytes while the body is forwarded. It calls settle once, when the
// body has ended or is closed. For a larger body, tooLarge is true and body is nil.
type observedBody struct {
	io.ReadCloser
	data     []byte
	tooLarge bool
	once     sync.Once
	settle   func(body []byte, tooLarge bool)
}

// Read implements io.Reader. It does not delay the body.
func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case b.tooLarge:
	case len(b.data)+n > maxReadBody:
		b.data, b.tooLarge = nil, true
	default:
		b.data = append(b.data, p[:n]...)
	}
	if err != nil {
		b.finish()
	}
	return n, err
}

// Close implements io.Closer.
func (b *observedBody) Close() error {
	err := b.ReadCloser.Close()
	b.finish()
	return err
}

func (b *observedBody) finish() { b.once.Do(func() { b.settle(b.data, b.tooLarge) }) }

// jsonPointer has the names of a JSON pointer (RFC 6901), without escapes.
type jsonPointer []string

// The limits of a pointer: lookup decodes a value for each of its names.
const (
	maxPointerBytes = 256
	maxPointerNames = 16
)

// parsePointer parses a non-empty JSON pointer. text says what to correct, "" for a valid pointer.
func parsePointer(pointer string) (names jsonPointer, text string) {
	p := jsontext.Pointer(pointer)
	if pointer == "" || !p.IsValid() || len(pointer) > maxPointerBytes || strings.Count(pointer, "/") > maxPointerNames {
		return nil, fmt.Sprintf(`Write a JSON pointer such as "/usage/total", of at most %d bytes and %d names.`,
			maxPointerBytes, maxPointerNames)
	}
	return slices.Collect(p.Tokens()), ""
}

// lookup returns the value in a JSON text, nil if there is none. The error is errNotJSON.
func (p jsonPointer) lookup(text json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(text) {
		return nil, errNotJSON
	}
	for _, name := range p {
		members, elements := map[string]json.RawMessage{}, []json.RawMessage{}
		switch {
		case json.Unmarshal(text, &members) == nil:
			text = members[name]
		case json.Unmarshal(text, &elements) == nil:
			text = nil
			if i, err := strconv.Atoi(name); err == nil && strconv.Itoa(i) == name && i >= 0 && i < len(elements) {
				text = elements[i]
			}
		default:
			text = nil
		}
		if text == nil {
			return nil, nil
		}
	}
	return text, nil
}

// amount returns the amount in a response's body.
func (p jsonPointer) amount(body []byte) parsedAmount {
	value, err := p.lookup(body)
	switch {
	case err != nil:
		return parsedAmount{err: err}
	case value == nil:
		return parsedAmount{err: errNoAmount}
	}
	return parseAmount(string(value))
}

// text returns a string or an integer, which are the types of customer keys, as text. It returns "" for anything else.
func (p jsonPointer) text(data json.RawMessage) string {
	value, err := p.lookup(data)
	if err != nil || value == nil {
		return ""
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var n int64
	if json.Unmarshal(value, &n) != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
