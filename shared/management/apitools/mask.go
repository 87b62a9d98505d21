package apitools

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/format/credential"
)

// redacted replaces a secret if its last characters must not be shown either.
const redacted = "****"

// Mask returns a result with its secrets masked like keys (contract 3.4), and reports whether it has masked any.
// All other parts of the result, their order and the spelling of numbers stay the same. An empty body stays empty.
//
// Mask masks secrets even if a result does not match its schema: it masks a member with the name of a secret, and a
// string, number or boolean in place of an object or list with a secret. It also masks credentials in other strings,
// for example in the text of a problem. It masks a body that is not JSON as a whole, unless the tool has no secrets
// and the body contains no credential. If Mask has masked something, its output is always JSON.
func (t *Tool) Mask(body []byte) (masked []byte, hidden bool) { return t.Secrets.mask(body) }

// MaskArguments masks the secrets in the arguments of a call, for callers that show the arguments to a person.
func (t *Tool) MaskArguments(arguments []byte) (masked []byte, hidden bool) {
	return t.ArgumentSecrets.mask(arguments)
}

func (s *Secrets) mask(body []byte) (masked []byte, hidden bool) {
	if len(bytes.TrimSpace(body)) == 0 || s == nil && !credential.Contains(string(body)) {
		return body, false
	}
	var out bytes.Buffer
	m := masker{
		Decoder: jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true)),
		out:     jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true)),
		names:   map[string]bool{},
	}
	s.addNames(m.names)
	if err := m.value(s, false); err != nil {
		return []byte(`"` + redacted + `"`), true
	}
	if _, err := m.ReadToken(); !errors.Is(err, io.EOF) {
		return []byte(`"` + redacted + `"`), true // more data follows
	}
	if !m.hidden {
		return body, false
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), true
}

// masker copies one JSON text and masks its secrets.
type masker struct {
	*jsontext.Decoder
	out *jsontext.Encoder
	// names are the names of secrets in this result, at any position.
	names  map[string]bool
	hidden bool
}

// value copies a value with the secrets s. If callerData is true, the value
// is a part of the caller's own data. Names in that data do not identify secrets.
func (m *masker) value(s *Secrets, callerData bool) error {
	callerData = callerData || s != nil && s.CallerData
	if s != nil && s.Secret {
		return m.maskSecret()
	}
	switch kind := m.PeekKind(); kind {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		return m.container(kind, s, callerData)
	case jsontext.KindString:
		token, err := m.ReadToken()
		if err != nil {
			return err
		}
		text := token.String()
		switch {
		case s.hasSecrets() && text != redacted:
			return m.writeMasked(redacted)
		case credential.Contains(text):
			return m.writeMasked(credential.Redact(text))
		}
		return m.out.WriteToken(token)
	default:
		value, err := m.ReadValue()
		if err != nil {
			return err
		}
		if s.hasSecrets() && kind != jsontext.KindNull {
			return m.writeMasked(redacted)
		}
		return m.out.WriteValue(value)
	}
}

// container copies an object or a list.
func (m *masker) container(kind jsontext.Kind, s *Secrets, callerData bool) error {
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
		child := s.entry()
		if kind == jsontext.KindBeginObject {
			name, err := m.ReadToken()
			if err != nil {
				return err
			}
			text := name.String()
			if err := m.out.WriteToken(name); err != nil {
				return err
			}
			child = s.lookup(text)
			if !callerData && child == nil && m.names[text] {
				child = &Secrets{Secret: true}
			}
		}
		if err := m.value(child, callerData); err != nil {
			return err
		}
	}
}

// entry returns the secrets of a list's entry. If the value should be
// an object but is a list, the entries are treated like this object.
func (s *Secrets) entry() *Secrets {
	if s == nil || s.Entries != nil {
		return s.entries()
	}
	return s
}

// entries returns Entries, or nil if s is nil.
func (s *Secrets) entries() *Secrets {
	if s == nil {
		return nil
	}
	return s.Entries
}

// lookup returns the secrets of an object's member. If the value should be a
// list but is an object, the object is treated like an entry of this list.
func (s *Secrets) lookup(name string) *Secrets {
	switch {
	case s == nil:
		return nil
	case s.Members[name] != nil:
		return s.Members[name]
	case s.Values != nil:
		return s.Values
	case s.Members == nil:
		return s.Entries.lookup(name)
	default:
		return nil
	}
}

// maskSecret reads a secret value and writes its masked form. Null, the empty string and a text that is already masked
// stay unchanged.
func (m *masker) maskSecret() error {
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
			return m.writeMasked(shown)
		}
		return m.out.WriteValue(value)
	default:
		return m.writeMasked(redacted)
	}
}

func (m *masker) writeMasked(shown string) error {
	m.hidden = true
	return m.out.WriteToken(jsontext.String(shown))
}

// The bounds of masked forms, in bytes. The last characters of a secret are shown only
// if the secret has at least minShown bytes. A masked form has at most maxMasked bytes.
const (
	minShown  = 16
	maxMasked = 12
)

// maskedText returns the masked form of a text. It returns the text itself if it is empty or already masked.
func maskedText(text string) string {
	if text == "" || strings.HasPrefix(text, redacted) && len(text) <= maxMasked {
		return text
	}
	suffix := credential.Suffix(text)
	if len(text) < minShown || !utf8.ValidString(suffix) {
		return redacted
	}
	return credential.Masked(suffix)
}
