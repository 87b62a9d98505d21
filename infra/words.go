package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/config"
)

// word is one that a stage's file or the context may say, as Settings declares it.
type word struct {
	name string
	// schema is of its value in a file.
	schema *huma.Schema
	// inContext says that no file has it.
	inContext bool
	// personal reports whether its value is about a person, and is not shown.
	personal bool
	// is says what it is to be, in words of its own, "" for what follows from the schema; without is what holds without it.
	is, without string
}

// words are what was said, by name: values as JSON has them.
type words map[string]any

// declaredWords are all words, in the order of Settings; those of the services' bounds come last. They are made once, and nobody changes them.
var declaredWords = sync.OnceValue(makeWords)

func makeWords() (out []word) {
	of := reflect.TypeFor[Settings]()
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if field.Tag.Get("named") == "stage" { // as other programs have it
			field.Tag += reflect.StructTag(fmt.Sprintf(" pattern:%q is:%q", config.StagePattern, config.StageIs))
		}
		w := word{name: name, inContext: field.Tag.Get("only") == "context", is: field.Tag.Get("is"), without: field.Tag.Get("without"), personal: field.Tag.Get("personal") == "true"}
		w.schema = huma.SchemaFromField(huma.NewMapRegistry("#/", huma.DefaultSchemaNamer), field, "")
		w.schema.Nullable = false
		w.schema.PrecomputeMessages()
		out = append(out, w)
	}
	for _, of := range functions.Services() {
		for _, b := range of.Bounds {
			i := slices.IndexFunc(config.Settings(), func(s config.Setting) bool { return s.Name == b.Variable })
			schema := &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeInteger}, {Type: huma.TypeString}}}
			if i >= 0 {
				schema.Description = fmt.Sprintf("%s: %s, of each task of the service %s", config.Settings()[i].What, config.Settings()[i].Range, of.Name)
			}
			schema.PrecomputeMessages()
			out = append(out, word{name: b.Context, schema: schema, is: "is a number or a text"})
		}
	}
	return out
}

// wordNamed is the declaration of a word.
func wordNamed(name string) (word, bool) {
	all := declaredWords()
	i := slices.IndexFunc(all, func(w word) bool { return w.name == name })
	if i < 0 {
		return word{}, false
	}
	return all[i], true
}

// unknown says that there is no such word, and which one is near.
func unknown(name string) error {
	var names []string
	for _, w := range declaredWords() {
		if strings.EqualFold(w.name, name) {
			return fmt.Errorf("there is no word %q: %s", name, config.DidYouMean(w.name))
		}
		names = append(names, w.name)
	}
	near, is := config.Nearest(name, names, max(len(name)/3, 2))
	if !is {
		return fmt.Errorf("there is no word %s: docs/aws.md has those that there are", shown(name))
	}
	return fmt.Errorf("there is no word %s: %s", shown(name), config.DidYouMean(near))
}

// mostShown is how many bytes of a text that nobody knows are told.
const mostShown = 100

// shown is a text of a stranger in quotes, on one line, of a length that is read, in characters that a terminal shows.
func shown(text string) string {
	if len(text) > mostShown {
		return strconv.QuoteToASCII(text[:mostShown]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// check says what a value of a file is to be; nil for a good one.
func (w word) check(v any) error {
	var res huma.ValidateResult
	huma.Validate(nil, w.schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, &res)
	if len(res.Errors) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s", w.name, w.demand())
}

// demand is what the word is to be.
func (w word) demand() string {
	s := w.schema
	switch {
	case w.is != "":
		return w.is
	case len(s.Enum) > 0:
		var each []string
		for _, e := range s.Enum {
			each = append(each, fmt.Sprint(e))
		}
		return "is one of " + strings.Join(each, ", ")
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("is a whole number between %.0f and %.0f", *s.Minimum, *s.Maximum)
	case s.Type == huma.TypeBoolean:
		return "is true or false"
	case s.Type == huma.TypeArray && s.MaxItems != nil:
		return fmt.Sprintf("is a list of texts, %d at most", *s.MaxItems)
	case s.Type == huma.TypeArray:
		return "is a list of texts"
	}
	return "is a text"
}

// fromContext reads the word's text in the context.
func (w word) fromContext(text string) (any, error) {
	var v any = text
	switch w.schema.Type {
	case huma.TypeBoolean:
		if b, err := strconv.ParseBool(text); err == nil && text == strconv.FormatBool(b) {
			v = b
		}
	case huma.TypeInteger:
		if n, err := strconv.Atoi(text); err == nil {
			v = float64(n)
		}
	case huma.TypeArray:
		each := []any{}
		for _, one := range strings.Fields(text) {
			each = append(each, one)
		}
		v = each
	}
	return v, w.check(v)
}

// contextWords reads what the context says, and tells what is wrong with it, a line each. A text of nothing says nothing.
func contextWords(context func(string) any) (out words, wrong []error) {
	out = words{}
	for _, w := range declaredWords() {
		text := ""
		if v := context(w.name); v != nil {
			text = fmt.Sprint(v)
		}
		if text == "" {
			continue
		}
		v, err := w.fromContext(text)
		if err != nil {
			wrong = append(wrong, wordError{w, fmt.Errorf("-c %w", err)})
			continue
		}
		out[w.name] = v
	}
	return out, wrong
}

// wordError is about a word by itself.
type wordError struct {
	word
	error
}

// beside leaves out of errors about what words say together, a line each, those that name a word which is wrong by itself: it counts as one that is
// not said, and was.
func beside(wrong []error, together error) error {
	if together == nil {
		return nil
	}
	var out []error
	for line := range strings.Lines(together.Error()) {
		isNamed := func(err error) bool {
			var of wordError
			return errors.As(err, &of) && slices.Contains(strings.FieldsFunc(line, func(r rune) bool { return !unicode.IsLetter(r) }), of.name)
		}
		if !slices.ContainsFunc(wrong, isNamed) {
			out = append(out, errors.New(strings.TrimSuffix(line, "\n")))
		}
	}
	return errors.Join(out...)
}

// text is a word as a text, "" where it is not said.
func (w words) text(name string) string {
	switch v := w[name].(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// settings are those that the words say, and what holds without the others.
func (w words) settings() (s Settings, err error) {
	all := words{}
	for _, d := range declaredWords() {
		if d.schema.Default != nil {
			all[d.name] = d.schema.Default
		}
		if v, is := w[d.name]; is {
			all[d.name] = v
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return s, fmt.Errorf("write the settings: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read the settings: %w", err)
	}
	return s, nil
}
