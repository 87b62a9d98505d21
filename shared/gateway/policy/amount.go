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

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/project"
)

// amountOptions say where an answer has the units that it has used. There is no such place in
// a request: what a client writes itself is no measure.
type amountOptions struct {
	ResponseHeader string `json:"responseHeader"`
	// ResponseBody is a JSON pointer into the answer.
	ResponseBody string `json:"responseBody"`
	// Max is the most that an answer counts, and what a request takes before it is sent.
	Max int64 `json:"max" required:"true" minimum:"1" maximum:"9007199254740991"`
	// Otherwise is what a good answer counts that does not say it, nil for Max.
	Otherwise *int64 `json:"otherwise" minimum:"0" maximum:"9007199254740991"`
}

// amount reads the units of an answer.
type amount struct {
	header    string
	member    jsonPointer // nil for the header
	otherwise int64
}

// maxReadBody bounds what is kept of an answer to find a member in it.
const maxReadBody = 1 << 20

func newAmount(pointer string, raw json.RawMessage) (*amount, int64, []project.Problem) {
	var o amountOptions
	problems := options.ReadMember(pointer, raw, &o, "")
	a := &amount{header: http.CanonicalHeaderKey(o.ResponseHeader), otherwise: o.Max}
	switch {
	case o.ResponseHeader == "" && o.ResponseBody == "":
		problems = append(problems, options.Problem(pointer, `Say where the upstream's answers have the amount: a header in "responseHeader", or a JSON pointer in "responseBody".`))
	case o.ResponseHeader != "" && o.ResponseBody != "":
		problems = append(problems, options.Problem(pointer+"/responseBody", `Remove "responseBody" or "responseHeader": one says where the amount is.`))
	case o.ResponseHeader != "" && !httpguts.ValidHeaderFieldName(o.ResponseHeader):
		problems = append(problems, options.Problem(pointer+"/responseHeader", `Write the name of a header, such as "X-Units".`))
	case o.ResponseBody != "":
		var text string
		if a.member, text = readPointer(o.ResponseBody); text != "" {
			problems = append(problems, options.Problem(pointer+"/responseBody", "%s", text))
		}
	}
	if o.Otherwise != nil {
		a.otherwise = *o.Otherwise
		if o.Max > 0 && a.otherwise > o.Max {
			problems = append(problems, options.Problem(pointer+"/otherwise", `Write at most what "max" is: no answer counts more.`))
		}
	}
	return a, o.Max, problems
}

// settle hands back what the request has taken and its answer has not used: all of it when the
// upstream was not asked, and of amounts what the answer leaves of them.
func (c *claims) settle(response *http.Response, handled bool) {
	if !handled {
		c.release()
		return
	}
	var inBody []*taken
	s := settling{claims: c, status: response.StatusCode}
	// A client that leaves early is answered nothing, and the upstream may have done all.
	s.good = s.status < http.StatusMultipleChoices || c.x.Context.Err() != nil
	for i := range c.held {
		held := &c.held[i]
		switch a := held.meter.amount; {
		case a == nil:
		case a.member != nil:
			inBody = append(inBody, held)
		default:
			s.count(held, headerAmount(response.Header[a.header]))
		}
	}
	if len(inBody) > 0 {
		s.readBody(response, inBody)
	}
}

// settling is what is known of an answer.
type settling struct {
	*claims
	status int
	// good says that an answer without an amount counts nevertheless.
	good bool
}

// said is what an answer says of a meter: units, or why there are none.
type said struct {
	units int64
	err   error
}

var (
	errNoAmount    = errors.New("the answer does not say the amount")
	errBadAmount   = errors.New("the amount is no whole number of at least 0")
	errEncoded     = errors.New("the answer is compressed, although it was asked for without")
	errLargeAnswer = fmt.Errorf("the answer has more than %d bytes", maxReadBody)
	errNoJSON      = errors.New("the answer is not JSON, or ended early")
	errAboveMax    = errors.New("the amount is above max")
)

func headerAmount(values []string) said {
	if len(values) == 0 {
		return said{err: errNoAmount}
	}
	if len(values) > 1 {
		return said{err: errBadAmount}
	}
	return parseAmount(strings.TrimSpace(values[0]))
}

// parseAmount reads a number as JSON has it. What is above all bounds comes back as the largest
// of them.
func parseAmount(text string) said {
	var f float64
	if text == "" || text[0] < '0' || text[0] > '9' || json.Unmarshal([]byte(text), &f) != nil || f != math.Trunc(f) {
		return said{err: errBadAmount}
	}
	return said{units: int64(min(f, 1<<53))}
}

// count settles a claim by what the answer says: what it says of itself; else nothing for an
// answer that is none, and otherwise for the rest, which is all by default: who sells by
// the amount loses nothing by an upstream that forgets to say it.
func (s *settling) count(held *taken, said said) {
	a, used := held.meter.amount, said.units
	switch {
	case said.err != nil && !s.good:
		used, said.err = 0, nil
	case said.err != nil:
		used = a.otherwise
	case used > held.meter.units:
		used, said.err = held.meter.units, errAboveMax
	}
	if said.err != nil {
		s.p.log.LogAttrs(s.x.Context, slog.LevelWarn, "amount not read", append(s.p.attributes(s.x),
			slog.String("meter", held.meter.name), slog.Int("status", s.status), slog.Int64("units", used), slog.Any("error", said.err))...)
	}
	s.give(held, held.meter.units-used)
}

// readBody settles claims whose amounts are in the body when it has passed.
func (s *settling) readBody(response *http.Response, held []*taken) {
	all := func(err error) {
		for _, h := range held {
			s.count(h, said{err: err})
		}
	}
	switch encoding := response.Header.Get("Content-Encoding"); {
	case s.status == http.StatusSwitchingProtocols, response.Body == http.NoBody:
		all(errNoAmount)
		return
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		all(errEncoded)
		return
	case response.ContentLength > maxReadBody:
		all(errLargeAnswer)
		return
	}
	response.Body = &readBody{ReadCloser: response.Body, settle: func(body []byte, large bool) {
		if large {
			all(errLargeAnswer)
			return
		}
		for _, h := range held {
			s.count(h, h.meter.amount.member.amount(body))
		}
	}}
}

// readBody keeps what passes of a body, up to maxReadBody, and settles once when it has ended
// or is closed.
type readBody struct {
	io.ReadCloser
	kept   []byte
	large  bool
	once   sync.Once
	settle func(body []byte, large bool)
}

// Read implements io.Reader. It holds nothing back.
func (b *readBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case b.large:
	case len(b.kept)+n > maxReadBody:
		b.kept, b.large = nil, true
	default:
		b.kept = append(b.kept, p[:n]...)
	}
	if err != nil {
		b.end()
	}
	return n, err
}

// Close implements io.Closer.
func (b *readBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

func (b *readBody) end() { b.once.Do(func() { b.settle(b.kept, b.large) }) }

// jsonPointer is a JSON pointer's names (RFC 6901), without escapes.
type jsonPointer []string

// Bounds of a pointer: each of its names reads what it is in once more.
const (
	maxPointerBytes = 256
	maxPointerNames = 16
)

// readPointer reads a pointer of a project, which is not "". text says what is wrong with it.
func readPointer(pointer string) (names jsonPointer, text string) {
	p := jsontext.Pointer(pointer)
	if pointer == "" || !p.IsValid() || len(pointer) > maxPointerBytes || strings.Count(pointer, "/") > maxPointerNames {
		return nil, fmt.Sprintf(`Write a JSON pointer such as "/usage/total", of at most %d bytes and %d names.`, maxPointerBytes, maxPointerNames)
	}
	return slices.Collect(p.Tokens()), ""
}

// in finds the value in a JSON text, nil where there is none.
func (p jsonPointer) in(text json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(text) {
		return nil, errNoJSON
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

// amount reads the number of an answer.
func (p jsonPointer) amount(body []byte) said {
	value, err := p.in(body)
	switch {
	case err != nil:
		return said{err: err}
	case value == nil:
		return said{err: errNoAmount}
	}
	return parseAmount(string(value))
}

// text reads a text or a whole number, as customers are called, "" for anything else.
func (p jsonPointer) text(data json.RawMessage) string {
	value, err := p.in(data)
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
