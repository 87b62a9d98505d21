// Package terminal prints messages for a person: the steps, the summary and the errors of a local run and of
// commands, and one line for each request and log record.
//
// It does not write logs for machines. The local run writes them as JSON into the data directory.
//
// Read terminal.go first, then lines.go. Colors are only for terminals, and follow NO_COLOR (no-color.org).
package terminal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Terminal prints messages for a person. It is safe for concurrent use.
type Terminal struct {
	mu    sync.Mutex
	out   io.Writer
	color bool
}

// New returns a Terminal that writes to out, in color if color is true.
func New(out io.Writer, color bool) *Terminal {
	return &Terminal{out: out, color: color}
}

// SupportsColor reports whether a file is a terminal that shows colors, and neither NO_COLOR nor TERM=dumb disables
// them. On Windows, it also enables escape sequences for the file.
func SupportsColor(f *os.File, getenv func(string) string) bool {
	if getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && enableEscapes(f)
}

// The styles, as parameters of the SGR escape sequence.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (t *Terminal) style(text, style string) string {
	if !t.color || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (t *Terminal) print(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, text)
}

// Step prints the step that begins now, such as "Starting the database".
func (t *Terminal) Step(format string, args ...any) {
	t.print(t.style("· "+fmt.Sprintf(format, args...), dim) + "\n")
}

// Fail prints each line of the error's text as an error of its own.
func (t *Terminal) Fail(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		t.print(t.style("error: ", red) + line + "\n")
	}
}

// Summary describes a running installation for a person.
type Summary struct {
	// API and Gateway are addresses. Gateway contains <deployment>.
	API, Gateway string
	// TLS is the address of deployments with TLS. CA is the file with the certificate that clients have to trust.
	// Both are "" without TLS.
	TLS, CA string
	// Relay is the address for agents of tunnels, "" if there is none.
	Relay string
	// ACMEDirectory is the ACME directory that issues certificates for custom domains, "" if there is none.
	ACMEDirectory string
	// OperatorURL is the address of the metrics, "" if there is none. OperatorNote is a note about that address.
	OperatorURL, OperatorNote string
	Account                   string
	// Key is the account key's text if it was just created, "" otherwise.
	Key string
	// KeyFile and DataDir are paths as a person would type them.
	KeyFile, DataDir string
	// Version is the version of the release. It is not shown if it is "".
	Version string
}

// Ready prints that the installation is running.
func (t *Terminal) Ready(s Summary) {
	var b strings.Builder
	row := func(name, value, note string) {
		fmt.Fprintf(&b, "  %s %s", t.style(fmt.Sprintf("%-15s", name), dim), value)
		if note != "" {
			b.WriteString("  " + t.style(note, dim))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\n%s\n\n", t.style("Gatewright is running.", bold+";"+green))
	row("Management API", t.style(s.API, cyan), "")
	row("Console", t.style(s.API+"/console", cyan), "")
	row("Deployments", t.style(s.Gateway, cyan), "")
	if s.TLS != "" {
		row("", t.style(s.TLS, cyan), "for clients that trust "+s.CA)
	}
	if s.Relay != "" {
		row("Tunnels", t.style(s.Relay, cyan), "")
	}
	if s.ACMEDirectory != "" {
		row("Custom domains", "certificates of "+t.style(s.ACMEDirectory, cyan), "")
	}
	if s.OperatorURL != "" {
		row("Operators", t.style(s.OperatorURL, cyan), s.OperatorNote)
	}
	row("Account", s.Account, "")
	if s.Key != "" {
		row("Account key", t.style(s.Key, bold), "shown this once; it stays in "+s.KeyFile)
	} else {
		row("Account key", "in "+s.KeyFile, "")
	}
	row("Data", s.DataDir, "")
	if s.Version != "" {
		row("Version", s.Version, "")
	}
	fmt.Fprintf(&b, "\nTry it from another terminal (README.md has the first five minutes):\n\n  curl -H @- "+
		"%s/v1/who-am-i <<<\"Authorization: Bearer $(cat %s)\"\n\n%s\n\n",
		s.API, filepath.ToSlash(s.KeyFile), t.style("Ctrl-C stops everything; the next start goes on from there.", dim))
	t.print(b.String())
}
