// Package output writes the output of the client's commands. It writes one document to stdout, as a table for people or
// as JSON or YAML for programs, or one document after the other (Entry). It writes messages and errors to stderr.
//
// It does not prompt (package prompt), and has no knowledge of commands and operations.
//
// Untrusted text cannot control the terminal or mislead a reader: characters that cannot be printed are escaped
// (Printable, and the escapes of JSON and YAML).
//
// Read output.go first, then table.go and yaml.go. printable.go defines which characters are escaped.
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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// Format is the format of a document.
type Format string

// These are the formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats returns the formats. The first is the default.
func Formats() []Format { return []Format{Table, JSON, YAML} }

// Options are the output options of a command line.
type Options struct {
	// Format is one of Formats. "" means the default, or JSON if there is a query.
	Format Format
	// Query is a jq program that is applied to the document, "" for none.
	Query string
	// UseColor allows colors on stderr. Terminal says that stdout is a terminal. StderrTerminal says that stderr is a
	// terminal.
	UseColor, Terminal, StderrTerminal bool
}

// Output writes the output of a command. Infof and Noticef are safe for concurrent use.
type Output struct {
	stdout, stderr io.Writer
	options        Options
	query          *gojq.Code
	messages       *terminal.Terminal
}

// New returns the output of a command. If the options are invalid, it returns a usage error, and an Output whose Fail
// can report this error.
func New(stdout, stderr io.Writer, o Options) (*Output, error) {
	switch {
	case o.Format == "" && o.Query != "":
		o.Format = JSON
	case o.Format == "":
		o.Format = Table
	case !slices.Contains(Formats(), o.Format):
		return NewPlain(stderr, o.UseColor),
			exit.WithCode(exit.Usage, fmt.Errorf("--output is one of %s", joinFormats(Formats())))
	}
	w := &Output{stdout: stdout, stderr: stderr, options: o, messages: terminal.New(stderr, o.UseColor)}
	if o.Query == "" {
		return w, nil
	}
	if o.Format != JSON {
		return w, exit.WithCode(exit.Usage, errors.New("--jq asks JSON: leave --output out, or say --output json"))
	}
	parsed, parseErr := gojq.Parse(o.Query)
	if parseErr == nil {
		w.query, parseErr = gojq.Compile(parsed)
	}
	if parseErr != nil {
		return w, exit.WithCode(exit.Usage, fmt.Errorf("--jq is no program of jq: %w", parseErr))
	}
	return w, nil
}

// NewPlain returns the output for an invalid command line. It only writes messages and errors to stderr.
func NewPlain(stderr io.Writer, useColor bool) *Output {
	return &Output{
		stdout: io.Discard, stderr: stderr, options: Options{Format: Table}, messages: terminal.New(stderr, useColor),
	}
}

// Format returns the format of documents.
func (o *Output) Format() Format { return o.options.Format }

// Infof writes a message to stderr. With the format JSON it writes nothing, because stderr then has only the document
// of a failure.
func (o *Output) Infof(format string, args ...any) {
	if o.options.Format != JSON {
		o.message(format, args)
	}
}

// Noticef is like Infof, for messages that a waiting user has to see. On a terminal it writes them with any format,
// because no program reads a terminal.
func (o *Output) Noticef(format string, args ...any) {
	if o.options.Format != JSON || o.options.StderrTerminal {
		o.message(format, args)
	}
}

func (o *Output) message(format string, args []any) {
	o.messages.Step("%s", Printable(credential.Redact(fmt.Sprintf(format, args...))))
}

// Document writes the document of a command, which is JSON. table returns the table for people; nil means the default
// table (NewTable). If the document cannot be converted, Document returns an error and writes nothing.
func (o *Output) Document(ctx context.Context, document []byte, table func() (Grid, error)) error {
	text, err := o.render(ctx, document, table)
	if err != nil {
		return err
	}
	return o.write(text)
}

// Entry writes one of many documents as one line of JSON, even if the format is Table or YAML. If there is a query,
// Entry writes the result of the query instead.
func (o *Output) Entry(ctx context.Context, document []byte) error {
	if o.query != nil {
		text, err := o.runQuery(ctx, document)
		if err != nil {
			return err
		}
		return o.write(text)
	}
	line := jsontext.Value(bytes.Clone(document))
	if err := line.Compact(); err != nil {
		return fmt.Errorf("read a document: %w", err)
	}
	return o.write(append(escape(line), '\n'))
}

// Text writes a text unchanged. Each of its lines must end with a line break.
func (o *Output) Text(text string) error { return o.write([]byte(text)) }

func (o *Output) write(text []byte) error {
	if _, err := o.stdout.Write(text); err != nil {
		return fmt.Errorf("write to stdout: %w", disk.Cause(err))
	}
	return nil
}

func (o *Output) render(ctx context.Context, document []byte, table func() (Grid, error)) ([]byte, error) {
	switch {
	case o.query != nil:
		return o.runQuery(ctx, document)
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
		return append(escape(text), '\n'), nil
	}
	if table == nil {
		table = func() (Grid, error) { return NewTable(document) }
	}
	grid, err := table()
	if err != nil {
		return nil, err
	}
	return []byte(grid.String()), nil
}

// runQuery applies the query to a document. If a result is a text, it is written without quotes for use in a shell. On
// a terminal it is escaped.
func (o *Output) runQuery(ctx context.Context, document []byte) ([]byte, error) {
	value, err := decode(document)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for iter := o.query.RunWithContext(ctx, value); ; {
		v, ok := iter.Next()
		if !ok {
			return out.Bytes(), nil
		}
		switch v := v.(type) {
		case error:
			if halt, ok := errors.AsType[*gojq.HaltError](v); ok && halt.Value() == nil {
				return out.Bytes(), nil
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("--jq: %w", v)
		case string:
			if o.options.Terminal {
				v = Printable(v)
			}
			out.WriteString(v)
		default:
			text, err := gojq.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("--jq: %w", err)
			}
			out.Write(escape(text))
		}
		out.WriteByte('\n')
	}
}

// decode decodes a document for gojq. Integers of any size stay exact.
func decode(document []byte) (any, error) {
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

// Documented is an error that has its own JSON document for programs, such as a problem of the API.
type Documented interface {
	error
	// Document returns the JSON document.
	Document() []byte
}

// failure is the document of any other error.
type failure struct {
	Title    string    `json:"title"`
	Detail   string    `json:"detail"`
	ExitCode exit.Code `json:"exitCode"`
}

// Fail reports why a command failed. With the format JSON it writes one document. Otherwise it writes each line of
// err's text as an error message.
func (o *Output) Fail(err error) {
	if o.options.Format != JSON {
		o.messages.Fail(errors.New(PrintableLines(credential.Redact(err.Error()))))
		return
	}
	document := []byte(nil)
	if documented, ok := errors.AsType[Documented](err); ok {
		document = documented.Document()
	}
	// A server that is no API may echo the request with its key, so redact the key. The result may no longer be JSON:
	// then do not use it.
	if text := jsontext.Value(credential.Redact(string(document))); len(text) > 0 && text.Compact() == nil {
		document = text
	} else if document, err = json.Marshal(failure{
		"The command failed.", credential.Redact(err.Error()),
		exit.CodeOf(err),
	}); err != nil {
		document = []byte(`{"title":"The command failed."}`)
	}
	_, _ = o.stderr.Write(append(escape(document), '\n'))
}
