package handler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf16"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// userHeaders is the option that sends the user of a request upstream. It has the names of the header fields for the
// two parts of pipeline.User, "" for a part that is not sent.
type userHeaders struct {
	Sub  string `json:"sub"`
	Data string `json:"data"`
}

// check returns the problems of the option, and converts the names to canonical form.
func (u *userHeaders) check() []project.Problem {
	if u == nil {
		return nil
	}
	var problems []project.Problem
	for i, name := range []*string{&u.Sub, &u.Data} {
		option := [...]string{"/sub", "/data"}[i]
		if text := upstream.CheckFieldName(*name); *name != "" && text != "" {
			problems = append(problems, options.Problem("/userHeaders"+option, "%s", text))
		}
		*name = http.CanonicalHeaderKey(*name)
	}
	switch {
	case u.Sub == "" && u.Data == "":
		problems = append(problems, options.Problem("/userHeaders",
			`Name a header for "sub", for "data" or for both, or remove "userHeaders".`))
	case upstream.SameField(u.Sub, u.Data):
		problems = append(problems, options.Problem("/userHeaders/data", `Choose another header than that of "sub".`))
	}
	return problems
}

// setUserHeaders sets the option, and returns its problems.
func (p *proxy) setUserHeaders(u *userHeaders) []project.Problem {
	p.userHeaders = u
	return u.check()
}

// write sets the fields for the user in x.Header, which is sent upstream. First it removes the client's fields of these
// names, and all fields that upstreams can confuse with them, from the header and the trailer. So the fields always
// come from the gateway. They are missing if the user is not known, and the field for the data also if the user has no
// data.
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

// asciiJSON returns a JSON text on one line of ASCII characters, as a field's value requires. It escapes DEL and all
// non-ASCII characters (RFC 8259, section 7).
func asciiJSON(text json.RawMessage) string {
	var line bytes.Buffer
	if json.Compact(&line, text) != nil {
		return "" // never occurs: a user's data is valid JSON
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
