package validationpeer_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// python is the Python that has openapi-core.
const python = "../../.bin/validationpeer/bin/python"

// peer is a running peer.py.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startPeer starts peer.py. It skips the test if openapi-core is not installed; in continuous integration the test fails
// instead.
func startPeer(t *testing.T) *peer {
	t.Helper()
	if _, err := os.Stat(python); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("openapi-core is not there: make .bin/validationpeer/installed installs it")
	}
	program, err := filepath.Abs(python)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"peer.py"}, descriptions...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &peer{cmd, in, json.NewDecoder(bufio.NewReader(out))}
}

// write sends requests to the peer, which checks them meanwhile. It returns an error if the peer has ended.
func (p *peer) write(requests []*request) error {
	lines := bufio.NewWriter(p.in)
	encoder := json.NewEncoder(lines)
	for _, r := range requests {
		fields := make([][2]string, len(r.fields))
		for i, field := range r.fields {
			fields[i] = [2]string{field[0], latin1([]byte(field[1]))}
		}
		err := encoder.Encode([]any{r.description, r.template, r.method, latin1([]byte(r.target())), fields, latin1(r.body)})
		if err != nil {
			return err
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	return p.in.Close()
}

// read returns why the peer refuses the next request, or nothing if it accepts it.
func (p *peer) read() (refusal []string, err error) {
	err = p.out.Decode(&refusal)
	return refusal, err
}

// latin1 returns bytes as a text with one character for each byte.
func latin1(data []byte) string {
	out := make([]rune, len(data))
	for i, b := range data {
		out[i] = rune(b)
	}
	return string(out)
}
