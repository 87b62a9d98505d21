package apitools

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/credential"
)

// withheld stands for a secret of which not even the end may be shown.
const withheld = "****"

// Mask returns an answer with its secrets masked as keys are (contract 3.4), and whether there were any. All else
// is as it was, in order and digit for digit; an empty body stays empty.
//
// It never lets one through: where an answer has another form than its schema, what has the name of a secret
// is one, and a text where an object with a secret belongs is withheld. So is any text in which a credential of
// ours is found, such as one that a problem repeats, and a body that is no JSON. What comes out is JSON, always.
func (t *Tool) Mask(body []byte) (masked []byte, hidden bool) { return t.Secrets.mask(body) }

// MaskArguments does the same to the arguments of a call, for whoever shows them to a person.
func (t *Tool) MaskArguments(arguments []byte) (masked []byte, hidden bool) {
	return t.Given.mask(arguments)
}

func (s *Secrets) mask(body []byte) (masked []byte, hidden bool) {
	if len(bytes.TrimSpace(body)) == 0 || s == nil && !credential.Within(string(body)) {
		return body, false
	}
	var out bytes.Buffer
	m := masker{
		Decoder: jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true)),
		out:     jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true)),
		names:   map[string]bool{},
	}
	s.names(m.names)
	if err := m.value(s, false); err != nil {
		return []byte(`"` + withheld + `"`), true
	}
	if _, err := m.ReadToken(); !errors.Is(err, io.EOF) {
		return []byte(`"` + withheld + `"`), true // something comes after it
	}
	if !m.hidden {
		return body, false
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), true
}

// masker copies one JSON text, and masks it on the way.
type masker struct {
	*jsontext.Decoder
	out *jsontext.Encoder
	// names are those that secrets have in this answer, wherever they should be.
	names  map[string]bool
	hidden bool
}

// value copies a value that holds s. Within what is the caller's own, names tell nothing.
func (m *masker) value(s *Secrets, own bool) error {
	own = own || s != nil && s.Own
	if s != nil && s.Secret {
		return m.secret()
	}
	switch kind := m.PeekKind(); kind {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		return m.within(kind, s, own)
	case jsontext.KindString:
		token, err := m.ReadToken()
		if err != nil {
			return err
		}
		text := token.String()
		switch {
		case s.holds() && text != withheld:
			return m.hide(withheld)
		case credential.Within(text):
			return m.hide(credential.Redact(text))
		}
		return m.out.WriteToken(token)
	default:
		value, err := m.ReadValue()
		if err != nil {
			return err
		}
		if s.holds() && kind != jsontext.KindNull {
			return m.hide(withheld)
		}
		return m.out.WriteValue(value)
	}
}

// within copies an object or a list.
func (m *masker) within(kind jsontext.Kind, s *Secrets, own bool) error {
	begin, err := m.ReadToken()
	if err != nil {
		return err
	}
	if err := m.out.WriteToken(begin); err != nil {
		return err
	}
	for {
		switch m.PeekKind() {
		case jsontext.KindEndObject, jsontext.KindEndArray:
			end, err := m.ReadToken()
			if err != nil {
				return err
			}
			return m.out.WriteToken(end)
		default:
		}
		of := s.entry()
		if kind == jsontext.KindBeginObject {
			name, err := m.ReadToken()
			if err != nil {
				return err
			}
			text := name.String()
			if err := m.out.WriteToken(name); err != nil {
				return err
			}
			of = s.under(text)
			if !own && of == nil && m.names[text] {
				of = &Secrets{Secret: true}
			}
		}
		if err := m.value(of, own); err != nil {
			return err
		}
	}
}

// entry is what an entry of a list holds. A list where there should be an object is taken for several of them.
func (s *Secrets) entry() *Secrets {
	if s == nil || s.Entries != nil {
		return s.entries()
	}
	return s
}

func (s *Secrets) entries() *Secrets {
	if s == nil {
		return nil
	}
	return s.Entries
}

// under is what a member of an object holds. An object where there should be a list is taken for one of its entries.
func (s *Secrets) under(name string) *Secrets {
	switch {
	case s == nil:
		return nil
	case s.Members[name] != nil:
		return s.Members[name]
	case s.Values != nil:
		return s.Values
	case s.Members == nil:
		return s.Entries.under(name)
	default:
		return nil
	}
}

// secret reads a value that is one, and writes its masked form. What says that there is none stays.
func (m *masker) secret() error {
	value, err := m.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case jsontext.KindNull:
		return m.out.WriteValue(value)
	case jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return err
		}
		if shown := maskedText(string(text)); shown != string(text) {
			return m.hide(shown)
		}
		return m.out.WriteValue(value)
	default:
		return m.hide(withheld)
	}
}

func (m *masker) hide(shown string) error {
	m.hidden = true
	return m.out.WriteToken(jsontext.String(shown))
}

// The bounds of masked forms, in bytes: a secret is as long as any key at least where its end is shown, and what has the
// masked form is shorter than that.
const (
	leastShown = 16
	mostMasked = 12
)

// maskedText is the masked form of a text, and the text itself where it is empty or has that form.
func maskedText(text string) string {
	if text == "" || strings.HasPrefix(text, withheld) && len(text) <= mostMasked {
		return text
	}
	suffix := credential.Suffix(text)
	if len(text) < leastShown || !utf8.ValidString(suffix) {
		return withheld
	}
	return credential.Masked(suffix)
}
