package datadir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/gatewright/gatewright/local/control"
)

// State tells other processes about the one that holds the lock. It outlives a
// process that was killed: it counts only while the lock is held.
type State struct {
	PID int `json:"pid"`
	// Command is what the holder was started for: "run", "account create", …
	Command   string    `json:"command"`
	StartedOn time.Time `json:"startedOn"`

	// The addresses, as URLs, "" for what the holder does not serve.
	API     string `json:"api,omitempty"`
	Gateway string `json:"gateway,omitempty"`
	TLS     string `json:"tls,omitempty"`
	Relay   string `json:"relay,omitempty"`
	// Control is where it takes commands of this machine, a secret.
	Control control.Endpoint `json:"control,omitzero"`
}

const stateFile = "run.json"

// SaveState replaces the run state.
func (d *Dir) SaveState(s State) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return d.Write(stateFile, append(content, '\n'))
}

// LoadState reads the run state, the zero State when there is none or it
// cannot be understood: whoever holds the lock next writes a new one.
func (d *Dir) LoadState() (State, error) {
	content, err := d.Read(stateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	var s State
	if err := json.Unmarshal(content, &s); err != nil {
		return State{}, nil //nolint:nilerr // see the doc comment
	}
	return s, nil
}

// ClearState removes the run state.
func (d *Dir) ClearState() { _ = os.Remove(d.Path(stateFile)) }
