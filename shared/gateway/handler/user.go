package handler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf16"

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// userHeaders is the option that tells the upstream who the user of a request is: the
// names of the fields for the two parts of pipeline.User, "" for none.
type userHeaders struct {
	Sub  string `json:"sub"`
	Data string `json:"data"`
}

// check returns what is wrong with the option, and brings the names into their
// canonical form.
func (u *userHeaders) check() []project.Problem {
	if u == nil {
		return nil
	}
	var problems []project.Problem
	for i, name := range []*string{&u.Sub, &u.Data} {
		option := [...]string{"/sub", "/data"}[i]
		if text := upstream.RefuseField(*name); *name != "" && text != "" {
			problems = append(problems, options.Problem("/userHeaders"+option, "%s", text))
		}
		*name = http.CanonicalHeaderKey(*name)
	}
	switch {
	case u.Sub == "" && u.Data == "":
		problems = append(problems, options.Problem("/userHeaders", `Name a header for "sub", for "data" or for both, or remove "userHeaders".`))
	case upstream.SameField(u.Sub, u.Data):
		problems = append(problems, options.Problem("/userHeaders/data", `Choose another header than that of "sub".`))
	}
	return problems
}

// tell takes the option.
func (p *proxy) tell(u *userHeaders) []project.Problem {
	p.user = u
	return u.check()
}

// write puts the user into the fields that go upstream, in place of whatever the
// client sent in them, or in what upstreams may take for them: what is there was
// written here, and nothing is there where nobody is known.
func (u *userHeaders) write(x *pipeline.Exchange) {
	if u == nil {
		return
	}
	for _, name := range []string{u.Sub, u.Data} {
		if name != "" {
			upstream.RemoveField(x.Header, name)
			upstream.RemoveField(x.Trailer, name)
		}
	}
	if x.User == nil {
		return
	}
	if u.Sub != "" {
		x.Header[u.Sub] = []string{x.User.Sub}
	}
	if u.Data != "" && len(x.User.Data) > 0 {
		x.Header[u.Data] = []string{asciiJSON(x.User.Data)}
	}
}

// asciiJSON writes a JSON text on one line of ASCII, as a field's value has to be:
// what else is in its strings is escaped (RFC 8259, section 7).
func asciiJSON(text json.RawMessage) string {
	var line bytes.Buffer
	if json.Compact(&line, text) != nil {
		return "" // consumers have no such metadata
	}
	var out bytes.Buffer
	for _, r := range line.String() {
		switch {
		case r < 0x7f:
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
