// Package output writes what the commands of the client tell: one document on stdout, as a table for people or as
// JSON or YAML for programs, and all else on stderr.
//
// What it is not: it asks nothing (package prompt), and knows no command and no operation.
//
// Nothing that comes from elsewhere moves a terminal's cursor, or the eye: what cannot be printed is shown by its
// number (Printable, and the escapes that JSON and YAML have).
//
// Read output.go first, then table.go and yaml.go; printable.go has the rule for texts.
package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/disk"
)

// Format is how a document is written.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats lists them, the one first that holds where none is named.
func Formats() []Format { return []Format{Table, JSON, YAML} }

// Options are what is typed about the output.
type Options struct {
	// Format is one of Formats, "" for the first, and for JSON where there is a query.
	Format Format
	// Query is a jq program that is asked of the document, "" for none.
	Query string
	// Colours says that stderr may have some, Terminal that stdout is a terminal, and Watched that stderr is one.
	Colours, Terminal, Watched bool
}

// Output is where a command writes. Its Say may be called by several at once.
type Output struct {
	out, err io.Writer
	options  Options
	query    *gojq.Code
	person   *terminal.Terminal
}

// New is the output of a command. Its error is a usage error.
func New(out, err io.Writer, o Options) (*Output, error) {
	switch {
	case o.Format == "" && o.Query != "":
		o.Format = JSON
	case o.Format == "":
		o.Format = Table
	case !slices.Contains(Formats(), o.Format):
		return Plain(err, o.Colours), exit.With(exit.Usage, fmt.Errorf("--output is one of %s", list(Formats())))
	}
	w := &Output{out: out, err: err, options: o, person: terminal.New(err, o.Colours)}
	if o.Query == "" {
		return w, nil
	}
	if o.Format != JSON {
		return w, exit.With(exit.Usage, errors.New("--jq asks JSON: leave --output out, or say --output json"))
	}
	parsed, wrong := gojq.Parse(o.Query)
	if wrong == nil {
		w.query, wrong = gojq.Compile(parsed)
	}
	if wrong != nil {
		return w, exit.With(exit.Usage, fmt.Errorf("--jq is no program of jq: %w", wrong))
	}
	return w, nil
}

// Plain is the output of a command line that cannot be read: nothing but Say and Fail.
func Plain(err io.Writer, colours bool) *Output {
	return &Output{out: io.Discard, err: err, options: Options{Format: Table}, person: terminal.New(err, colours)}
}

// Format is the one that documents are written in.
func (o *Output) Format() Format { return o.options.Format }

// Say tells a person something that is no part of the document. What reads JSON is told nothing: its stderr has the problem alone.
func (o *Output) Say(format string, args ...any) {
	if o.options.Format != JSON {
		o.step(format, args)
	}
}

// Notice is Say for what somebody has to know who waits: it is said at a terminal whatever the format, since no program reads that.
func (o *Output) Notice(format string, args ...any) {
	if o.options.Format != JSON || o.options.Watched {
		o.step(format, args)
	}
}

func (o *Output) step(format string, args []any) {
	o.person.Step("%s", Printable(credential.Redact(fmt.Sprintf(format, args...))))
}

// Document writes a command's one document, of a text in JSON, and made is the table that a person sees of it; of nil it
// is the document's own (TableOf). Nothing is written where that has an error.
func (o *Output) Document(ctx context.Context, document []byte, made func() (Grid, error)) error {
	text, err := o.render(ctx, document, made)
	if err != nil {
		return err
	}
	return o.write(text)
}

// Entry writes one document of many, on a line of its own: JSON, whatever the format, or what the query makes of it.
func (o *Output) Entry(ctx context.Context, document []byte) error {
	if o.query != nil {
		text, err := o.ask(ctx, document)
		if err != nil {
			return err
		}
		return o.write(text)
	}
	line := jsontext.Value(bytes.Clone(document))
	if err := line.Compact(); err != nil {
		return fmt.Errorf("read a document: %w", err)
	}
	return o.write(append(escaped(line), '\n'))
}

// Text writes a text as it is, of which each line ends.
func (o *Output) Text(text string) error { return o.write([]byte(text)) }

func (o *Output) write(text []byte) error {
	if _, err := o.out.Write(text); err != nil {
		return fmt.Errorf("write to stdout: %w", disk.Cause(err))
	}
	return nil
}

func (o *Output) render(ctx context.Context, document []byte, made func() (Grid, error)) ([]byte, error) {
	switch {
	case o.query != nil:
		return o.ask(ctx, document)
	case o.options.Format == YAML:
		return ToYAML(document)
	case o.options.Format == JSON:
		if len(bytes.TrimSpace(document)) == 0 {
			return nil, nil
		}
		text := jsontext.Value(bytes.Clone(document))
		if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
			return nil, fmt.Errorf("read the document: %w", err)
		}
		return append(escaped(text), '\n'), nil
	}
	if made == nil {
		made = func() (Grid, error) { return TableOf(document) }
	}
	grid, err := made()
	if err != nil {
		return nil, err
	}
	return []byte(grid.String()), nil
}

// ask runs the query. A text is written as it is, for a shell, and escaped for a terminal.
func (o *Output) ask(ctx context.Context, document []byte) ([]byte, error) {
	value, err := valueOf(document)
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	for found := o.query.RunWithContext(ctx, value); ; {
		v, more := found.Next()
		if !more {
			return all.Bytes(), nil
		}
		switch v := v.(type) {
		case error:
			if halt, ok := errors.AsType[*gojq.HaltError](v); ok && halt.Value() == nil {
				return all.Bytes(), nil
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("--jq: %w", v)
		case string:
			if o.options.Terminal {
				v = Printable(v)
			}
			all.WriteString(v)
		default:
			text, err := gojq.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("--jq: %w", err)
			}
			all.Write(escaped(text))
		}
		all.WriteByte('\n')
	}
}

// valueOf reads a document as gojq takes it: whole numbers are exact, whatever their size.
func valueOf(document []byte) (any, error) {
	if len(bytes.TrimSpace(document)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	return value, nil
}

// Described is an error that a program reads as a document of its own, such as a problem of the API.
type Described interface {
	error
	// Document is in JSON.
	Document() []byte
}

// failure is what a program is told of any other error.
type failure struct {
	Title    string    `json:"title"`
	Detail   string    `json:"detail"`
	ExitCode exit.Code `json:"exitCode"`
}

// Fail tells why a command failed: a person a line for each problem, and what reads JSON one document.
func (o *Output) Fail(err error) {
	if o.options.Format != JSON {
		o.person.Fail(errors.New(PrintableLines(credential.Redact(err.Error()))))
		return
	}
	document := []byte(nil)
	if described, ok := errors.AsType[Described](err); ok {
		document = described.Document()
	}
	// What answers may be no API, and say again what it was sent. A text that hid a key may be no JSON without it.
	if text := jsontext.Value(credential.Redact(string(document))); len(text) > 0 && text.Compact() == nil {
		document = text
	} else if document, err = json.Marshal(failure{"The command failed.", credential.Redact(err.Error()), exit.Of(err)}); err != nil {
		document = []byte(`{"title":"The command failed."}`)
	}
	_, _ = o.err.Write(append(escaped(document), '\n'))
}
