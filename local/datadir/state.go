package datadir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/gatewright/gatewright/local/control"
)

// State is the run state: it describes the process that holds the lock, for other processes. The
// file can remain when that process is killed, so the State is valid only while the lock is held.
type State struct {
	PID int `json:"pid"`
	// Command is the command of the holder: "run", "account create", …
	Command   string    `json:"command"`
	StartedOn time.Time `json:"startedOn"`

	// The addresses as URLs. They are "" for services that the holder does not have.
	API     string `json:"api,omitempty"`
	Gateway string `json:"gateway,omitempty"`
	TLS     string `json:"tls,omitempty"`
	Relay   string `json:"relay,omitempty"`
	// Control is the address and the token of the server that runs commands of other processes. The token is a secret.
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

// LoadState reads the run state. It returns the zero State if the file does
// not exist or is invalid: the next holder of the lock writes a new file.
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
