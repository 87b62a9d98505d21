// Package terminal prints the local run's messages for a person: its progress, the
// addresses and files once it runs, one line a request, one line an error.
//
// What it is not: a log for machines. That is JSON in the data directory.
//
// Read terminal.go first, then lines.go. Colours are for terminals alone and
// follow NO_COLOR (no-color.org).
package terminal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Terminal writes to a person. It is safe for concurrent use.
type Terminal struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
}

// New writes to out, in colour when colour is set.
func New(out io.Writer, colour bool) *Terminal {
	return &Terminal{out: out, colour: colour}
}

// Colours reports whether a file is a terminal whose reader has nothing
// against colours.
func Colours(f *os.File, getenv func(string) string) bool {
	if getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && understandsEscapes(f)
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
	if !t.colour || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (t *Terminal) print(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, text)
}

// Step tells what happens now.
func (t *Terminal) Step(format string, args ...any) {
	t.print(t.style("· "+fmt.Sprintf(format, args...), dim) + "\n")
}

// Fail tells what went wrong: one line a problem, each what to do about it.
func (t *Terminal) Fail(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		t.print(t.style("error: ", red) + line + "\n")
	}
}

// Summary is what a person wants to know of a running installation.
type Summary struct {
	// API and Gateway are addresses; Gateway has <deployment> in it.
	API, Gateway string
	// TLS is where deployments are served by TLS, and CA the file with what a client has
	// to trust for that; "" for not.
	TLS, CA string
	// Relay is where agents of tunnels connect, "" for nowhere.
	Relay string
	// Authority is the ACME directory that custom domains get certificates from, "" for none.
	Authority string
	// Operators is where the metrics are, "" for nowhere, and OperatorsNote what is to be known of that address.
	Operators, OperatorsNote string
	Account                  string
	// Key is the account key's text when it was just made, "" otherwise.
	Key string
	// KeyFile and Data are paths as a person would type them.
	KeyFile, Data string
	// Version is what release it is, "" for no word of it.
	Version string
}

// Ready tells that the installation runs.
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
	if s.Authority != "" {
		row("Custom domains", "certificates of "+t.style(s.Authority, cyan), "")
	}
	if s.Operators != "" {
		row("Operators", t.style(s.Operators, cyan), s.OperatorsNote)
	}
	row("Account", s.Account, "")
	if s.Key != "" {
		row("Account key", t.style(s.Key, bold), "shown this once; it stays in "+s.KeyFile)
	} else {
		row("Account key", "in "+s.KeyFile, "")
	}
	row("Data", s.Data, "")
	if s.Version != "" {
		row("Version", s.Version, "")
	}
	fmt.Fprintf(&b, "\nTry it from another terminal (README.md has the first five minutes):\n\n  curl -H @- %s/v1/who-am-i <<<\"Authorization: Bearer $(cat %s)\"\n\n%s\n\n",
		s.API, filepath.ToSlash(s.KeyFile), t.style("Ctrl-C stops everything; the next start goes on from there.", dim))
	t.print(b.String())
}
