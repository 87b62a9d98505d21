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
	"github.com/gatewright/gatewright/shared/base/spelling"
	"github.com/gatewright/gatewright/shared/core/config"
)

// settingDef is the declaration of a setting that a stage's file or the CDK context can contain. It is derived from a
// field of Settings, or from a service's limit.
type settingDef struct {
	name string
	// schema is the JSON Schema of the setting's value in a file.
	schema *huma.Schema
	// contextOnly says that a stage's file cannot contain the setting.
	contextOnly bool
	// personal says that the value is personal data, which is not shown.
	personal bool
	// validValues describes the valid values, in a text that begins with "is". If it is "", requirement derives the
	// description from the schema. defaultText describes a default that the schema does not have.
	validValues, defaultText string
}

// settingValues are values of settings by name, as decoded from JSON.
type settingValues map[string]any

// settingDefs returns the declarations of all settings, in the order of Settings, followed by the limits that services
// declare. They are created once, and callers must not change them.
var settingDefs = sync.OnceValue(newSettingDefs)

func newSettingDefs() (out []settingDef) {
	settingsType := reflect.TypeFor[Settings]()
	for i := range settingsType.NumField() {
		field := settingsType.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		// Other programs use the pattern of a stage's name too, so it is a constant. A struct tag cannot contain a constant.
		if field.Tag.Get("named") == "stage" {
			field.Tag += reflect.StructTag(fmt.Sprintf(" pattern:%q is:%q", config.StagePattern, config.StageDescription))
		}
		def := settingDef{
			name: name, contextOnly: field.Tag.Get("only") == "context", validValues: field.Tag.Get("is"),
			defaultText: field.Tag.Get("without"), personal: field.Tag.Get("personal") == "true",
		}
		def.schema = huma.SchemaFromField(huma.NewMapRegistry("#/", huma.DefaultSchemaNamer), field, "")
		def.schema.Nullable = false
		def.schema.PrecomputeMessages()
		out = append(out, def)
	}
	for _, svc := range functions.Services() {
		for _, limit := range svc.Limits {
			i := slices.IndexFunc(config.Settings(), func(s config.Setting) bool { return s.Name == limit.Variable })
			schema := &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeInteger}, {Type: huma.TypeString}}}
			if i >= 0 {
				schema.Description = fmt.Sprintf("%s: %s, of each task of the service %s", config.Settings()[i].Description,
					config.Settings()[i].Range, svc.Name)
			}
			schema.PrecomputeMessages()
			out = append(out, settingDef{name: limit.Context, schema: schema, validValues: "is a number or a text"})
		}
	}
	return out
}

// settingNamed returns the declaration of a setting. It returns false if no setting has this name.
func settingNamed(name string) (settingDef, bool) {
	all := settingDefs()
	i := slices.IndexFunc(all, func(def settingDef) bool { return def.name == name })
	if i < 0 {
		return settingDef{}, false
	}
	return all[i], true
}

// unknownSettingError returns the error for an unknown setting. It contains the most similar name, if there is a
// similar one.
func unknownSettingError(name string) error {
	var names []string
	for _, def := range settingDefs() {
		if strings.EqualFold(def.name, name) {
			return fmt.Errorf("there is no word %q: %s", name, spelling.DidYouMean(def.name))
		}
		names = append(names, def.name)
	}
	nearest, ok := spelling.Nearest(name, names, max(len(name)/3, 2))
	if !ok {
		return fmt.Errorf("there is no word %s: docs/aws.md has those that there are", quoted(name))
	}
	return fmt.Errorf("there is no word %s: %s", quoted(name), spelling.DidYouMean(nearest))
}

// maxQuoted is the maximum number of bytes of untrusted text that is shown.
const maxQuoted = 100

// quoted returns untrusted text in quotes: one line of ASCII, with at most maxQuoted bytes of the text.
func quoted(text string) string {
	if len(text) > maxQuoted {
		return strconv.QuoteToASCII(text[:maxQuoted]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// validate returns an error that describes the valid values, nil for a valid value.
func (d settingDef) validate(v any) error {
	var res huma.ValidateResult
	huma.Validate(nil, d.schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, &res)
	if len(res.Errors) == 0 {
		return nil
	}
	return fmt.Errorf("%s %s", d.name, d.requirement())
}

// requirement returns a description of the valid values.
func (d settingDef) requirement() string {
	s := d.schema
	switch {
	case d.validValues != "":
		return d.validValues
	case len(s.Enum) > 0:
		var values []string
		for _, e := range s.Enum {
			values = append(values, fmt.Sprint(e))
		}
		return "is one of " + strings.Join(values, ", ")
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

// parse returns the value of a setting from its text in the CDK context, and an error if it is invalid.
func (d settingDef) parse(text string) (any, error) {
	var v any = text
	switch d.schema.Type {
	case huma.TypeBoolean:
		if b, err := strconv.ParseBool(text); err == nil && text == strconv.FormatBool(b) {
			v = b
		}
	case huma.TypeInteger:
		if n, err := strconv.Atoi(text); err == nil {
			v = float64(n)
		}
	case huma.TypeArray:
		items := []any{}
		for _, item := range strings.Fields(text) {
			items = append(items, item)
		}
		v = items
	}
	return v, d.validate(v)
}

// contextValues reads the settings in the context, and returns an error for each invalid one. An empty text counts as
// not set.
func contextValues(context func(string) any) (out settingValues, errs []error) {
	out = settingValues{}
	for _, def := range settingDefs() {
		text := ""
		if v := context(def.name); v != nil {
			text = fmt.Sprint(v)
		}
		if text == "" {
			continue
		}
		v, err := def.parse(text)
		if err != nil {
			errs = append(errs, settingError{def, fmt.Errorf("-c %w", err)})
			continue
		}
		out[def.name] = v
	}
	return out, errs
}

// settingError is the error of a single setting.
type settingError struct {
	settingDef
	error
}

// dropLinesAbout removes each line of combined that names one of the invalid settings. combined has one line for each
// invalid combination of settings. Such a line would be misleading, because an invalid setting counts as not set.
func dropLinesAbout(invalid []error, combined error) error {
	if combined == nil {
		return nil
	}
	var out []error
	for line := range strings.Lines(combined.Error()) {
		mentioned := func(err error) bool {
			var target settingError
			return errors.As(err, &target) && slices.Contains(strings.FieldsFunc(line, func(r rune) bool {
				return !unicode.IsLetter(r)
			}), target.name)
		}
		if !slices.ContainsFunc(invalid, mentioned) {
			out = append(out, errors.New(strings.TrimSuffix(line, "\n")))
		}
	}
	return errors.Join(out...)
}

// text returns the value of a setting as text, "" if it is not set.
func (v settingValues) text(name string) string {
	switch v := v[name].(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// settings returns Settings with these values. Settings without a value get their default.
func (v settingValues) settings() (s Settings, err error) {
	all := settingValues{}
	for _, d := range settingDefs() {
		if d.schema.Default != nil {
			all[d.name] = d.schema.Default
		}
		if v, ok := v[d.name]; ok {
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
